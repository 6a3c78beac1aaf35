import { randomUUID } from 'node:crypto';
import type { OutgoingHttpHeaders } from 'node:http';
import { CallError } from '../../agent-protocol/call-error.ts';
import { callLimits } from '../../agent-protocol/functions.ts';
import type { Execution, Executions, FunctionAnswer, FunctionRequest } from '../../agent-protocol/functions.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import type { Clock } from '../../time/clock.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { Activator } from './activator.ts';
import type { Call, Reply } from './call.ts';
import { CallFault } from './call-fault.ts';
import type { ExecutionLog, Position } from './execution-log.ts';

/**
 * Calls that users make through the control plane at a time, of all functions and of those of one project: each one holds its
 * answer in memory, and takes one of the calls that the control plane can make to the agent.
 */
export const mostAsked = { onServer: 16, ofProject: 8 };

/** A call by a schedule waits so long for its function to be served, as after a start of the machine. */
export const arrivalMs = 60_000;

export interface ExecutionQuery {
  function_id: string;
  limit: number;
  /** Id of an execution: only those that come after it, the newest first. */
  before?: string | undefined;
  status?: readonly string[] | undefined;
}

/** The functions that are served on this server, by their ids, and what became of their calls. */
export class Functions {
  readonly #log: Pick<ExecutionLog, 'add' | 'count' | 'position' | 'read'>;
  readonly #clock: Clock;
  readonly #served = new Map<string, { activator: Activator; project: string }>();
  /** Who waits for a function to be served. */
  readonly #awaited = new Set<{ id: string; resolve: () => void }>();
  /** Calls that users make through the control plane now: the project of each. */
  readonly #asked: string[] = [];
  /** Executions that have not ended, by the function that they are of. */
  readonly #running = new Map<string, Map<string, Execution>>();

  constructor(deps: { log: Pick<ExecutionLog, 'add' | 'count' | 'position' | 'read'>; clock: Clock }) {
    this.#log = deps.log;
    this.#clock = deps.clock;
  }

  serve(id: string, activator: Activator, project: string): void {
    this.#served.set(id, { activator, project });
    for (const it of this.#awaited) if (it.id === id) it.resolve();
  }

  leave(id: string, activator: Activator): void {
    if (this.#served.get(id)?.activator === activator) this.#served.delete(id);
  }

  /** Notes that an execution began or has ended. */
  record(of: string, it: Execution): void {
    const running = this.#running.get(of) ?? new Map<string, Execution>();
    if (it.status === 'running') {
      this.#running.set(of, running.set(it.id, it));
      return;
    }
    running.delete(it.id);
    if (running.size === 0) this.#running.delete(of);
    this.#log.add(of, it);
  }

  /** Those that began last first, as many as fit into an answer. None after one that is not kept any more. */
  async executions({ function_id, limit, before, status }: ExecutionQuery): Promise<Executions> {
    const all = [...(this.#running.get(function_id)?.values() ?? [])];
    const cursor = all.find(({ id }) => id === before);
    const position = cursor === undefined ? await this.#positionOf(function_id, before) : positionIn(cursor);
    if (before !== undefined && position === undefined) return { items: [], more: false };
    const isAsked = status === undefined || status.length === 0 || status.includes('running');
    const ended = await this.#log.read({ function_id, limit, status, before: position });
    const known = new Set(ended.items.map(({ id }) => id)); // one may have ended meanwhile
    const running = all.filter(
      (it) => isAsked && !known.has(it.id) && (position === undefined || compare(positionIn(it), position) < 0),
    );
    const found = [...running, ...ended.items].toSorted((one, other) => compare(positionIn(other), positionIn(one)));
    const items = withinBytes(found.slice(0, limit));
    const countOfEnded = await this.#log.count(function_id, status);
    const total = countOfEnded + (isAsked ? (this.#running.get(function_id)?.size ?? 0) : 0);
    return { items, more: ended.more || found.length > items.length, total };
  }

  async #positionOf(of: string, id: string | undefined): Promise<Position | undefined> {
    return id === undefined ? undefined : this.#log.position(of, id);
  }

  /** Calls a function as a user asked the control plane to. @throws CallError `not_running`, `too_many` */
  async ask(
    { function_id: id, request }: { function_id: string; request: FunctionRequest },
    signal: AbortSignal,
  ): Promise<FunctionAnswer> {
    const served = this.#served.get(id);
    if (served === undefined)
      throw new CallError('not_running', 'The function does not run on its server: start it, and wait until it runs');
    const { activator, project } = served;
    this.#requireRoom(project);
    let answer: FunctionAnswer['answer'];
    const { 'content-length': _, ...headers } = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const call = {
      trigger: 'manual' as const,
      method: request.method,
      path: request.path,
      headers: { host: 'localhost', ...headers },
      body: Buffer.from(request.body, 'base64'),
      answer: async (reply: Reply) => {
        answer = await collected(reply);
      },
    };
    this.#asked.push(project);
    const leave = (): unknown => this.#asked.splice(this.#asked.indexOf(project), 1);
    const execution = await recorded(activator, call, signal).finally(leave);
    return { execution, ...(answer !== undefined && { answer }) };
  }

  /** @throws CallError `too_many` if no call of a function of that project may begin now */
  #requireRoom(project: string): void {
    const { onServer, ofProject } = mostAsked;
    const isFull = this.#asked.length >= onServer;
    if (!isFull && this.#asked.filter((it) => it === project).length < ofProject) return;
    const many = isFull ? `${onServer} calls of functions` : `${ofProject} calls of functions of the project`;
    throw new CallError('too_many', `${many} go on already on this server by the API: try again later`);
  }

  /** Calls a function as its schedule asks, once it is served. @throws RuntimeFailure `not_serving` if it is not in time */
  async fire(
    {
      function_id: id,
      scheduled_at: at,
      missed,
    }: { function_id: string; scheduled_at: string; missed: readonly string[] },
    signal: AbortSignal,
  ): Promise<{ execution_id: string; status: string }> {
    // each its own millisecond, which they are listed by
    const now = this.#clock.now().getTime();
    for (const [n, instant] of missed.entries()) this.record(id, missedAt(instant, new Date(now - missed.length + n)));
    await this.#arrival(id, signal);
    const activator = this.#served.get(id)?.activator;
    if (activator === undefined) {
      this.record(id, missedAt(at, this.#clock.now()));
      throw new RuntimeFailure('not_serving', 'The function does not run on its server', { retryable: false });
    }
    const call = {
      trigger: 'cron' as const,
      scheduledAt: at,
      method: 'POST',
      path: '/',
      headers: { host: 'localhost' },
      body: Buffer.alloc(0),
      answer: async ({ body }: Reply) => {
        for await (const _ of body); // nobody reads it
      },
    };
    const execution = await recorded(activator, call, signal);
    return { execution_id: execution.id, status: execution.status };
  }

  /** Resolves once the function is served, after a while, or when the signal aborts. */
  async #arrival(id: string, signal: AbortSignal): Promise<void> {
    if (this.#served.has(id) || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { id, resolve };
    this.#awaited.add(waiter);
    const cancel = this.#clock.timer(arrivalMs, resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    cancel();
    this.#awaited.delete(waiter);
  }
}

function positionIn({ started_at, id }: Execution): Position {
  return { at: Date.parse(started_at), id };
}

function compare(one: Position, other: Position): number {
  if (one.at !== other.at) return one.at - other.at;
  return one.id < other.id ? -1 : Number(one.id > other.id);
}

/** The record of a call, also where the function did not answer. */
async function recorded(activator: Activator, call: Call, signal: AbortSignal): Promise<Execution> {
  try {
    return await activator.call(call, signal);
  } catch (error) {
    if (!(error instanceof CallFault) || error.execution === undefined) throw error;
    return error.execution;
  }
}

/** The answer, as much of it as is sent to the control plane. */
async function collected({ status, headers, body }: Reply): Promise<NonNullable<FunctionAnswer['answer']>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    const part = chunk as Uint8Array; // a reply has nothing else
    if (bytes < callLimits.answerBytes) chunks.push(part);
    bytes += part.byteLength;
  }
  const whole = Buffer.concat(chunks).subarray(0, callLimits.answerBytes);
  return { status, headers: texts(headers), body: whole.toString('base64'), truncated: bytes > whole.byteLength };
}

function texts(headers: OutgoingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers)
      .slice(0, callLimits.headers)
      .map(([name, value]) => [name, (Array.isArray(value) ? value.join(', ') : String(value ?? '')).slice(0, 8192)]),
  );
}

function missedAt(instant: string, now: Date): Execution {
  return {
    id: randomUUID(),
    version_id: '',
    trigger: 'cron',
    status: 'missed',
    scheduled_at: instant,
    started_at: now.toISOString(),
    finished_at: now.toISOString(),
    cold_start: false,
    method: 'POST',
    path: '/',
    error: {
      code: 'missed',
      message: 'Nothing was called at this time: another call went on, or the control plane or the server was away',
    },
  };
}

/** Most bytes of the records of one answer, which has to fit into a frame. */
const mostBytes = bounds.resultBytes / 2;

/** The first of them that have so many bytes together, at least one. */
function withinBytes(all: readonly Execution[]): Execution[] {
  let bytes = 0;
  const end = all.findIndex((it, index) => {
    bytes += Buffer.byteLength(JSON.stringify(it));
    return index > 0 && bytes > mostBytes;
  });
  return end === -1 ? [...all] : all.slice(0, end);
}
