import type { WireAssignment, WireService } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Actual } from '../engine/observer.ts';
import type { ContainerDetail, ImageInfo } from '../runtime/runtime.ts';
import type { Overflow } from '../engine/storage-watch.ts';

/** A service item of the desired set. It has no `configuration` if the agent does not have that. */
export type ServiceItem = WireAssignment & { spec: WireService };

/** A process of a container, from its start to its exit. */
export interface Run {
  container: string;
  /** Identifies the process among those of the same container. */
  startedAt: string;
  /** Monotonic time of the start, in milliseconds. */
  since: number;
  engineRestarts: number;
}

/** The end of a process that the agent did not cause. */
export interface Exit {
  container: string;
  /** Start of the process that ended. */
  startedAt: string;
  code: number | undefined;
  outOfMemory: boolean;
  /** The engine itself starts the process again. */
  byEngine: boolean;
  /**
   * Start of the process whose output is shown for its series of quick exits: the first of them, and in a crash loop the one
   * that made it one.
   */
  series: string;
  /** The counts before this exit, restored if the exit turns out to be part of a removal. */
  before: Pick<Memory, 'exits' | 'quickExits' | 'ends'>;
}

/** The end of a process that nobody asked for. */
interface End {
  /** Monotonic time. */
  at: number;
  lastedMs: number;
  /** It came before the process was stable. */
  isQuick: boolean;
}

/** The end of a process as an event of the engine told it. */
interface Death {
  container: string;
  /** The engine's time, in milliseconds since 1970. */
  at: number;
  code: number;
}

/** Processes of a container that were killed as it used more memory than its limit, the first one or another. */
export interface Kills {
  container: string;
  count: number;
  /** The engine's time of the last one, in milliseconds since 1970. */
  at: number;
  /** Monotonic time of the last one. */
  seenAt: number;
}

export interface Failure {
  /** The step that failed; only its success ends the failure. */
  step: string;
  code: FailureCode;
  message: string;
  /** Another try is useless until something changes. */
  final: boolean;
  tries: number;
  /** Monotonic time before which there is no further try. */
  until: number;
}

/**
 * What an agent remembers about one service between two observations of the engine. It may be lost at any time, as when
 * the agent restarts: the containers and the desired set are enough to go on without a restart of a healthy container.
 */
export interface Memory {
  /** The image that the reference of the spec resolved to; `of`: the key that it was resolved for, see `imageKey`. */
  image: (ImageInfo & { of: string; program?: readonly string[] }) | undefined;
  /** Settings of a container that this process made or adopted, as the engine first showed them. */
  baseline: { container: string; settings: string; own: boolean } | undefined;
  /** The container that this process made last. */
  created: string | undefined;
  /** The restart policy of the container, if known. */
  policy: { container: string; restart: 'no' | 'unless-stopped' } | undefined;
  run: Run | undefined;
  /** The exit that was last counted. */
  exit: Exit | undefined;
  /** The container that the agent is stopping: its exit is not counted. */
  stopping: string | undefined;
  /** Exits without two healthy minutes between them. They determine the delay before the next start. */
  exits: number;
  /** Exits in a row of runs that did not become stable. */
  quickExits: number;
  /** The latest ends that nobody asked for, oldest first. */
  ends: readonly End[];
  /** The last end that the engine told of: what it started again by itself does not show how it ended. */
  death: Death | undefined;
  kills: Kills | undefined;
  restarts: number;
  startNotBefore: number;
  failure: Failure | undefined;
  /** The exited container that another one replaces since the engine cannot start it again: its exit stays counted. */
  replaced: string | undefined;
  /** The container that the engine could not start: only a new one can help. */
  unstartable: string | undefined;
  /** The container that wrote more than its limit: only a new one can help. */
  overflow: Overflow | undefined;
}

export const blankMemory: Memory = {
  image: undefined,
  baseline: undefined,
  created: undefined,
  policy: undefined,
  run: undefined,
  exit: undefined,
  stopping: undefined,
  exits: 0,
  quickExits: 0,
  ends: [],
  death: undefined,
  kills: undefined,
  restarts: 0,
  startNotBefore: 0,
  failure: undefined,
  replaced: undefined,
  unstartable: undefined,
  overflow: undefined,
};

export interface Now {
  monotonic: number;
  wall: Date;
}

/** A run that ends sooner is a quick exit. */
const stableMs = 10_000;
/** After a run of this time, earlier exits are forgotten. */
const forgiveMs = 120_000;
const firstDelayMs = 1_000;
const mostDelayMs = 300_000;
/** This number of quick exits in a row is a crash loop. */
const crashLoopExits = 3;

/** Ends within a time that are a crash loop, and how many of them came after a stable run: those of a bad start are forgiven. */
const slowLoops = [
  { ms: 10 * 60_000, ends: 3, slow: 2 },
  { ms: 60 * 60_000, ends: 5, slow: 5 },
];
const keptEnds = 16;
/** A process that runs on for this time, and for half as long again as the one before it, is in no loop any more. */
const recoveredMs = 10 * 60_000;
const mostLifeMs = 20 * 60_000;

/** Whether the process keeps exiting, at once or however long each of its lives is. */
export function isCrashLoop(memory: Memory, now: number): boolean {
  return isQuickLoop(memory) || isSlowLoop(memory, now);
}

/** Whether it exits soon after each start: the engine would start it again too often. */
export function isQuickLoop({ quickExits }: Memory): boolean {
  return quickExits >= crashLoopExits;
}

function isSlowLoop({ ends, run }: Pick<Memory, 'ends' | 'run'>, now: number): boolean {
  if (run !== undefined && now >= run.since + recoveryMs(ends)) return false;
  return slowLoops.some(({ ms, ends: least, slow }) => {
    const recent = ends.filter(({ at }) => at + ms > now);
    return recent.length >= least && recent.filter(({ isQuick }) => !isQuick).length >= slow;
  });
}

function recoveryMs(ends: readonly End[]): number {
  return Math.max(recoveredMs, 1.5 * Math.min(mostLifeMs, ends.at(-1)?.lastedMs ?? 0));
}

/** Processes that were killed are told of for this time after the last one. */
const killsShownMs = 60 * 60_000;

/** Whether processes of its container were killed for memory not long ago. */
export function isShort({ kills }: Memory, now: number): boolean {
  return kills !== undefined && kills.seenAt + killsShownMs > now;
}

/** Takes in what the engine tells of the end of a process. An exit whose code was not seen gets that of its process. */
export function died(memory: Memory, death: Death): Memory {
  const { exit, run } = memory;
  const isOfExit =
    exit?.container === death.container &&
    exit.code === undefined &&
    !(death.at < Date.parse(exit.startedAt)) &&
    !(Date.parse(run?.startedAt ?? '') < death.at);
  return isOfExit ? { ...memory, exit: { ...exit, code: death.code } } : { ...memory, death };
}

/** Takes in that a process of the container was killed for memory. */
export function killed(memory: Memory, { container, at }: Pick<Kills, 'container' | 'at'>, now: Now): Memory {
  const before = memory.kills?.container === container ? memory.kills : undefined;
  // after a gap the engine tells of the last second again
  if (before !== undefined && before.at >= at) return memory;
  return { ...memory, kills: { container, count: (before?.count ?? 0) + 1, at, seenAt: now.monotonic } };
}

/** Delay before the next try: it doubles with every try, from 1 s to 5 minutes. */
export function backoffMs(tries: number): number {
  return Math.min(mostDelayMs, firstDelayMs * 2 ** Math.min(tries - 1, 20));
}

const loopDelayMs = 10_000;

/** Delay before a process is started again after so many exits: as {@link backoffMs}, and from 10 s on in a crash loop. */
export function restartDelayMs(exits: number): number {
  if (exits < crashLoopExits) return backoffMs(exits);
  return Math.min(mostDelayMs, loopDelayMs * 2 ** Math.min(exits - crashLoopExits, 20));
}

/** Updates the memory with the observed container of the assignment. Pure. */
export function remember(memory: Memory, actual: Actual | undefined, now: Now): Memory {
  if (actual === undefined) return forget(memory);
  const { detail } = actual;
  if (detail === undefined) return memory;
  const known = sameContainer(memory, detail);
  if (detail.startedAt === '' || detail.state === 'created' || detail.state === 'dead') return known;
  if (detail.id === memory.stopping) return { ...known, run: detail.state === 'running' ? known.run : undefined };
  if (detail.state === 'exited' || detail.state === 'restarting')
    return { ...countExit(known, endOf(known, detail, now), now), run: undefined };
  return forgive(seeRun(known, detail, now), now);
}

/** The container is gone. Its last exit is not counted if the process was killed for the removal. */
function forget(memory: Memory): Memory {
  if (memory.baseline === undefined) return memory;
  const { exit } = memory;
  const gone = { ...memory, baseline: undefined, policy: undefined, run: undefined, stopping: undefined };
  if (exit?.container !== memory.baseline.container || exit.container === memory.replaced) return gone;
  return { ...gone, ...exit.before, exit: undefined, startNotBefore: 0 };
}

/** A new container resets only what belongs to the container: exits stay, so that a removal resets no backoff. */
function sameContainer(memory: Memory, detail: ContainerDetail): Memory {
  if (memory.baseline?.container === detail.id) return memory;
  return {
    ...memory,
    baseline: { container: detail.id, settings: settingsOf(detail), own: memory.created === detail.id },
    policy: memory.policy?.container === detail.id ? memory.policy : undefined,
    run: undefined,
    kills: memory.kills?.container === detail.id ? memory.kills : undefined,
    restarts: detail.restartCount,
  };
}

function seeRun(memory: Memory, detail: ContainerDetail, now: Now): Memory {
  const before = memory.run;
  if (before?.startedAt === detail.startedAt) return memory;
  const age = now.wall.getTime() - Date.parse(detail.startedAt);
  const run: Run = {
    container: detail.id,
    startedAt: detail.startedAt,
    since: now.monotonic - Math.max(0, Number.isFinite(age) ? age : 0),
    engineRestarts: detail.restartCount,
  };
  if (before !== undefined) {
    // The container was restarted by the engine or from outside, and the exit in between was not observed.
    const byEngine = detail.restartCount - before.engineRestarts;
    const counted = countExit(memory, unseenEnd(memory, before, detail, run.since), now);
    const restarts = memory.restarts + Math.max(1, byEngine);
    return { ...counted, run, restarts, startNotBefore: memory.startNotBefore };
  }
  const again = memory.exit?.container === detail.id;
  return { ...memory, run, restarts: memory.restarts + (again ? 1 : 0) };
}

/** The end of a process, as it is counted. */
type Counted = Pick<Exit, 'container' | 'startedAt' | 'code' | 'outOfMemory' | 'byEngine'> & {
  lastedMs: number;
  /** How often processes ended since the last observation, each time without being asked to. */
  times: number;
};

/** The end of the process of a container that does not run. */
function endOf(memory: Memory, detail: ContainerDetail, now: Now): Counted {
  const { id: container, startedAt, state, oomKilled: outOfMemory, exitCode, finishedAt } = detail;
  const byEngine = state === 'restarting';
  // With this policy the engine restarts the container itself, unless a client requested the stop.
  const isAsked = !byEngine && memory.policy?.container === container && memory.policy.restart === 'unless-stopped';
  const code = finishedAt === '' ? undefined : exitCode;
  const lastedMs = lasted(memory, detail, now);
  return { container, startedAt, code, outOfMemory, byEngine, lastedMs, times: isAsked ? 0 : 1 };
}

/** The end of the process before the present one, which started at `since`: only events tell how it ended. */
function unseenEnd({ death, kills }: Memory, before: Run, detail: ContainerDetail, since: number): Counted {
  const { container, startedAt } = before;
  const isOfRun = (it: Death | Kills | undefined): boolean =>
    it?.container === container && it.at >= Date.parse(startedAt) && it.at <= Date.parse(detail.startedAt);
  const byEngine = Math.max(0, detail.restartCount - before.engineRestarts);
  return {
    container,
    startedAt,
    code: isOfRun(death) ? death?.code : undefined,
    outOfMemory: isOfRun(kills),
    byEngine: byEngine > 0,
    lastedMs: (since - before.since) / Math.max(1, byEngine),
    times: byEngine,
  };
}

function lasted(memory: Memory, detail: ContainerDetail, now: Now): number {
  const byEngine = Date.parse(detail.finishedAt) - Date.parse(detail.startedAt);
  if (Number.isFinite(byEngine) && byEngine >= 0) return byEngine;
  return memory.run === undefined ? 0 : now.monotonic - memory.run.since;
}

function countExit(memory: Memory, { lastedMs, times, ...end }: Counted, { monotonic: at }: Now): Memory {
  const { exit } = memory;
  if (exit?.container === end.container && exit.startedAt === end.startedAt) return memory;
  const exits = (lastedMs >= forgiveMs ? 0 : memory.exits) + 1;
  const wasStable = lastedMs >= stableMs;
  const quickExits = wasStable ? 0 : memory.quickExits + 1;
  const further = Array.from({ length: Math.min(times, keptEnds) }, (): End => ({ at, lastedMs, isQuick: !wasStable }));
  const ends = [...memory.ends, ...further].slice(-keptEnds);
  const wasSlowLoop = isSlowLoop(memory, at);
  const isFirst =
    exit === undefined ||
    quickExits === crashLoopExits ||
    (memory.quickExits === 0 && !wasSlowLoop) ||
    (!wasSlowLoop && isSlowLoop({ ends, run: undefined }, at));
  return {
    ...memory,
    exit: {
      ...end,
      series: isFirst ? end.startedAt : exit.series,
      before: { exits: memory.exits, quickExits: memory.quickExits, ends: memory.ends },
    },
    exits,
    quickExits,
    ends,
    startNotBefore: at + (exits === 1 && wasStable ? 0 : restartDelayMs(exits)),
  };
}

function forgive(memory: Memory, now: Now): Memory {
  if (memory.run === undefined || memory.exits === 0) return memory;
  const age = now.monotonic - memory.run.since;
  if (age >= forgiveMs) return { ...memory, exits: 0, quickExits: 0 };
  return age >= stableMs && memory.quickExits > 0 ? { ...memory, quickExits: 0 } : memory;
}

/** The next monotonic time after `now` at which something is forgotten, if there is anything to forget. */
export function forgivenAt(memory: Memory, now: number): number | undefined {
  const { run, exits, quickExits, ends, kills } = memory;
  const times: number[] = [];
  if (run !== undefined && exits > 0) times.push(run.since + (quickExits > 0 ? stableMs : forgiveMs));
  if (isSlowLoop(memory, now)) {
    times.push(...ends.flatMap(({ at }) => slowLoops.map(({ ms }) => at + ms)));
    if (run !== undefined) times.push(run.since + recoveryMs(ends));
  }
  if (kills !== undefined) times.push(kills.seenAt + killsShownMs);
  const later = times.filter((at) => at > now);
  return later.length === 0 ? undefined : Math.min(...later);
}

/**
 * The settings of a container as a text, to detect later changes of the same container. Addresses and networks are not
 * among them, as its start changes them.
 */
export function settingsOf(detail: ContainerDetail): string {
  const { env, entrypoint, command, memoryBytes, nanoCpus, processes, oomScoreAdj, shmBytes } = detail;
  const { stopSignal, user, readOnlyRoot, capabilities } = detail;
  const limits = [memoryBytes, nanoCpus, processes, oomScoreAdj, shmBytes];
  const rights = [user, readOnlyRoot, capabilities.add, capabilities.drop];
  return JSON.stringify([env.toSorted(), entrypoint, command, stopSignal, limits, rights]);
}
