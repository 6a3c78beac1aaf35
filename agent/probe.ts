import { request } from 'node:http';
import type { Clock } from '../agent-protocol/clock.ts';

/** Where a workload is asked whether it is well. */
export interface ProbeTarget {
  address: string;
  port: number;
  /** Begins with a slash. */
  path: string;
}

/** `reason` is stable: it has no times and counters. */
export type ProbeResult = { ok: true } | { ok: false; reason: string };

/** Asks a workload by HTTP. Never throws but the signal's reason. */
export interface Prober {
  probe(target: ProbeTarget, signal: AbortSignal): Promise<ProbeResult>;
}

const deadlineMs = 5_000;

/** GET over a fresh connection; 2xx and 3xx count as well, a redirect is not followed, the body is not read. */
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
        const abort = (): void => end(() => reject(signal.reason as Error)); // our signals abort with errors only
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
