import { request } from 'node:http';
import type { Clock } from '../../agent-protocol/clock.ts';

/** The address of a health check. */
export interface ProbeTarget {
  address: string;
  port: number;
  /** Begins with a slash. */
  path: string;
}

/** `reason` is the same for the same cause: it has no times and counters. */
export type ProbeResult = { ok: true } | { ok: false; reason: string };

/** Checks the health of a workload by HTTP. Throws only the signal's reason. */
export interface Prober {
  probe(target: ProbeTarget, signal: AbortSignal): Promise<ProbeResult>;
}

const deadlineMs = 5_000;

/** GET over a new connection, for at most 5 s. 2xx and 3xx mean healthy. Follows no redirect, reads no body. */
export function httpProber(clock: Clock): Prober {
  return {
    probe: ({ address, port, path }, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const outgoing = request({
          host: address,
          port,
          path,
          agent: false,
          headers: { host: `${address}:${port}`, 'user-agent': 'setpoint', connection: 'close' },
        });
        const end = (settle: () => void): void => {
          cancel();
          signal.removeEventListener('abort', abort);
          outgoing.destroy();
          settle();
        };
        const abort = (): void => end(() => reject(signal.reason as Error)); // all callers abort with errors
        const cancel = clock.timer(deadlineMs, () =>
          end(() => resolve({ ok: false, reason: `GET ${path} did not answer within ${deadlineMs / 1000} s` })),
        );
        signal.addEventListener('abort', abort, { once: true });
        outgoing.on('error', (error: NodeJS.ErrnoException) =>
          end(() => resolve({ ok: false, reason: `GET ${path} failed: ${error.code ?? 'unknown error'}` })),
        );
        outgoing.once('response', ({ statusCode = 0 }) =>
          end(() => {
            if (statusCode >= 200 && statusCode < 400) resolve({ ok: true });
            else resolve({ ok: false, reason: `GET ${path} answered ${statusCode}` });
          }),
        );
        outgoing.end();
      }),
  };
}
