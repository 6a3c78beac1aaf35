import { connect } from 'node:net';
import type { Clock } from '../../time/clock.ts';
import { request } from '../../agent-protocol/node-http.ts';
import { deadline } from './deadline.ts';
import { RuntimeFailure, type ContainerDetail, type ContainerRuntime } from './runtime.ts';

/** What is asked whether a workload is healthy, and how long at most. */
export type ProbeTarget = { timeoutMs: number } & (
  | {
      type: 'http';
      address: string;
      port: number;
      /** Begins with a slash. */
      path: string;
      /** The header `Host`; absent: address and port. */
      host?: string;
      /** The one status that means healthy; absent: 200 to 399. */
      status?: number;
    }
  | { type: 'tcp'; address: string; port: number }
  /** A program in the container, by its id. */
  | { type: 'command'; container: string; command: readonly string[] }
  /** The health check of the image, which the engine carries out; `container` is its id. */
  | { type: 'image'; container: string }
);
type Target<T extends ProbeTarget['type']> = Extract<ProbeTarget, { type: T }>;

/**
 * `ok: undefined`: the engine did not answer, so that nothing is known of the workload. `reason` is the same for the same
 * cause: it has no times and counters. `body` is the beginning of what was answered, which may be another one each time.
 */
export type ProbeResult = { ok: true } | { ok: false | undefined; reason: string; body?: string };

/** Checks the health of a workload. @throws the signal's reason */
export interface Prober {
  probe(target: ProbeTarget, signal: AbortSignal): Promise<ProbeResult>;
}

/** Probes over the network of this machine, and by the engine. */
export function prober({ clock, runtime }: { clock: Clock; runtime: Asked }): Prober {
  return {
    async probe(target, signal) {
      switch (target.type) {
        case 'http':
          return httpProbe(clock, target, signal);
        case 'tcp':
          return tcpProbe(clock, target, signal);
        case 'command':
          return commandProbe(runtime, target, signal);
        case 'image': {
          using limit = deadline(clock, target.timeoutMs, 'Asking for the health of a container', signal);
          return await imageProbe(runtime, target, limit.signal).catch((error: unknown) => {
            signal.throwIfAborted();
            if (!limit.signal.aborted) throw error;
            return { ok: undefined, reason: 'The container engine did not answer' };
          });
        }
      }
    },
  };
}

type Asked = Pick<ContainerRuntime, 'inspect' | 'run'>;

/** Longest time for which the text of an answer is waited for, where it is no healthy one. */
const mostBodyMs = 500;
/** Most bytes of it that are read. */
const bodyBytes = 200;

/** GET over a new connection. 2xx and 3xx mean healthy, or the status of the target. Follows no redirect. */
function httpProbe(clock: Clock, target: Target<'http'>, signal: AbortSignal): Promise<ProbeResult> {
  const { address, port, path, timeoutMs } = target;
  const host = hostOf(target);
  return attempt(clock, { what: `GET ${path}`, timeoutMs }, signal, (end) => {
    const outgoing = request({
      host: address,
      port,
      path,
      agent: false,
      headers: { host, 'user-agent': 'setpoint', connection: 'close' },
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) => end(failed(`GET ${path}`, error)));
    outgoing.once('response', (answer) => {
      const result = answered(target, answer.statusCode ?? 0);
      if (result.ok === true) return end(result);
      let body = '';
      const over = (): void => {
        cancel();
        end({ ...result, ...(body !== '' && { body }) });
      };
      // an answer may have no end
      const cancel = clock.timer(Math.min(mostBodyMs, timeoutMs / 2), over);
      answer.setEncoding('utf8').on('data', (text: string) => {
        body = (body + text).slice(0, bodyBytes);
        if (body.length === bodyBytes) over();
      });
      for (const event of ['end', 'error', 'close']) answer.once(event, over);
    });
    outgoing.end();
    return outgoing;
  });
}

/** Opens a connection and closes it at once. */
function tcpProbe(clock: Clock, target: Target<'tcp'>, signal: AbortSignal): Promise<ProbeResult> {
  const { address, port, timeoutMs } = target;
  const what = connectionTo(port);
  return attempt(clock, { what, timeoutMs }, signal, (end) => {
    const socket = connect(port, address);
    socket.on('error', (error: NodeJS.ErrnoException) => end(failed(what, error)));
    socket.once('connect', () => end({ ok: true }));
    return socket;
  });
}

/** Runs the program; exit code 0 means healthy. */
export function commandProbe(
  runtime: Pick<ContainerRuntime, 'run'>,
  { container, command, timeoutMs }: Target<'command'>,
  signal: AbortSignal,
): Promise<ProbeResult> {
  return unlessSilent(async () => {
    const { exitCode } = await runtime.run(container, command, { timeoutMs }, signal);
    if (exitCode === 0) return { ok: true };
    const what = (command[0] ?? 'The command').slice(0, 100);
    const reason = exitCode === undefined ? late(what, timeoutMs, 'end') : `${what} ended with code ${exitCode}`;
    return { ok: false, reason };
  });
}

const reasons: Readonly<Record<Exclude<ContainerDetail['health'], undefined | 'healthy'>, string>> = {
  starting: 'The health check of the image has not passed yet',
  unhealthy: 'The health check of the image failed',
};

/** Asks the engine for the result of its own checks. */
export function imageProbe(
  runtime: Pick<ContainerRuntime, 'inspect'>,
  { container }: Target<'image'>,
  signal: AbortSignal,
): Promise<ProbeResult> {
  return unlessSilent(async () => {
    const { state, health } = (await runtime.inspect(container, signal)) ?? {};
    if (state !== 'running') return { ok: false, reason: notRunning };
    if (health === undefined) return { ok: false, reason: 'The image has no health check' };
    return health === 'healthy' ? { ok: true } : { ok: false, reason: reasons[health] };
  });
}

const notRunning = 'The container does not run';

function hostOf({ address, port, host }: Target<'http'>): string {
  return host ?? `${address}:${port}`;
}

/** What servers answer that serve certain hosts only. */
const otherHosts: ReadonlySet<number> = new Set([400, 403, 421]);

/** Judges the HTTP status of an answer. */
export function answered(target: Target<'http'>, status: number): ProbeResult {
  const { path, host, status: wanted } = target;
  const isHealthy = wanted === undefined ? status >= 200 && status < 400 : status === wanted;
  if (isHealthy) return { ok: true };
  const isOfHost = otherHosts.has(status);
  const asked = host !== undefined || isOfHost ? ` with Host ${hostOf(target)}` : '';
  const instead = wanted === undefined ? '' : ` and not ${wanted}`;
  const remedy =
    isOfHost && host === undefined ? ' (if it serves certain hosts only, set host of its healthcheck)' : '';
  return { ok: false, reason: `GET ${path}${asked} answered ${status}${instead}${remedy}` };
}

export function connectionTo(port: number): string {
  return `A connection to port ${port}`;
}

/** Describes an attempt that did not lead to an answer. */
export function failed(what: string, { code = 'unknown error' }: Pick<NodeJS.ErrnoException, 'code'>): ProbeResult {
  return { ok: false, reason: `${what} failed: ${code}` };
}

function late(what: string, timeoutMs: number, verb: 'answer' | 'end'): string {
  return `${what} did not ${verb} within ${timeoutMs / 1000} s`;
}

/** An engine that does not answer shows nothing of the workload. */
async function unlessSilent(ask: () => Promise<ProbeResult>): Promise<ProbeResult> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof RuntimeFailure)) throw error;
    return error.code === 'exited' ? { ok: false, reason: notRunning } : { ok: undefined, reason: error.message };
  }
}

/** Waits until the opened connection ends with a result, the time is over, or the signal aborts; then destroys it. */
function attempt(
  clock: Clock,
  { what, timeoutMs }: { what: string; timeoutMs: number },
  signal: AbortSignal,
  open: (end: (result: ProbeResult) => void) => { destroy: () => unknown },
): Promise<ProbeResult> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const connection = open((result) => settle(() => resolve(result)));
    const settle = (how: () => void): void => {
      cancel();
      signal.removeEventListener('abort', abort);
      connection.destroy();
      how();
    };
    const abort = (): void => settle(() => reject(signal.reason as Error)); // all callers abort with errors
    const cancel = clock.timer(timeoutMs, () =>
      settle(() => resolve({ ok: false, reason: late(what, timeoutMs, 'answer') })),
    );
    signal.addEventListener('abort', abort, { once: true });
  });
}
