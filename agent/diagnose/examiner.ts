import PQueue from 'p-queue';
import { diagnosisLimits, diagnosisTiming } from '../../agent-protocol/diagnosis.ts';
import type { CheckResult, Diagnosis, HealAction, HealableCheck, Healing } from '../../agent-protocol/diagnosis.ts';
import type { Clock } from '../../time/clock.ts';
import { deadline } from '../runtime/deadline.ts';
import type { EngineFacts } from '../runtime/runtime.ts';
import { unlessAborted } from '../../time/unless-aborted.ts';
import type { Check, Finding } from './check.ts';
import type { World } from './world.ts';

/** Checks that look at once: more would make the machine slower that they examine. */
const atOnce = 8;
/** Longest time of one check. */
const checkMs = 4_000;
/** Longest time of the healing of one check. */
const healMs = 15_000;
/** Longest time for which checks of the network wait for those of the machine itself. */
const headStartMs = 1_000;

export interface ExaminerDeps {
  checks: readonly Check[];
  /** The world, but for what is asked of the engine once per examination. */
  world: Omit<World, 'engine'>;
  /** @throws RuntimeFailure */
  facts: (signal: AbortSignal) => Promise<EngineFacts>;
  clock: Clock;
}

/**
 * Examines the machine of the agent, and heals it. Everything has a deadline: a check that hangs is told as such and
 * holds up no other one. Examinations that are asked for at once are one; healings follow each other.
 */
export class Examiner {
  readonly #deps: ExaminerDeps;
  #examining: Promise<CheckResult[]> | undefined;
  #healing: Promise<unknown> = Promise.resolve();

  constructor(deps: ExaminerDeps) {
    this.#deps = deps;
  }

  /** Examines everything, within `diagnosisTiming.examineMs`. Changes nothing. @throws the signal's reason */
  async examine(signal: AbortSignal): Promise<Diagnosis> {
    this.#examining ??= this.#examine().finally(() => (this.#examining = undefined));
    const results = await unlessAborted(this.#examining, signal);
    return { at: this.#deps.clock.now().toISOString(), checks: results };
  }

  /**
   * Examines everything, heals what it may of what these checks found, and tells what is left to do; without names, of
   * all checks. Idempotent. @throws the signal's reason
   */
  async heal(names: readonly HealableCheck[] | undefined, signal: AbortSignal): Promise<Healing> {
    const turn = this.#healing.catch(() => undefined).then(() => this.#heal(names, signal));
    this.#healing = turn;
    return { actions: (await unlessAborted(turn, signal)).slice(0, diagnosisLimits.actions) };
  }

  async #heal(names: readonly HealableCheck[] | undefined, signal: AbortSignal): Promise<HealAction[]> {
    const { clock, checks } = this.#deps;
    const { checks: found } = await this.examine(signal);
    const actions: HealAction[] = [];
    using whole = deadline(clock, diagnosisTiming.healMs - diagnosisTiming.examineMs, 'Healing', signal);
    for (const { name, status, message, remediation, auto_fixable } of found) {
      if (status === 'pass' || (names !== undefined && !names.some((one) => one === name))) continue;
      const check = checks.find((one) => one.name === name);
      if (auto_fixable && check?.heal !== undefined) actions.push(...(await this.#healOne(check, whole.signal)));
      else
        actions.push({
          check: name,
          status: 'skipped',
          target: null,
          message: shortened(`${message}. ${remediation ?? ''}`),
        });
    }
    return actions;
  }

  async #healOne(check: Check, signal: AbortSignal): Promise<HealAction[]> {
    const { clock, world } = this.#deps;
    using limit = deadline(clock, healMs, `Healing ${check.name}`, signal);
    try {
      limit.signal.throwIfAborted();
      const actions = await unlessAborted(
        check.heal?.(this.#worldFor(limit.signal), limit.signal) ?? none,
        limit.signal,
      );
      return actions.map((action) => ({ check: check.name, ...action, message: shortened(action.message) }));
    } catch (error) {
      const message = limit.signal.aborted
        ? 'It did not end in time: what was done stays, heal again'
        : world.wordsOf(error);
      return [{ check: check.name, status: 'failed', target: null, message: shortened(message) }];
    }
  }

  async #examine(): Promise<CheckResult[]> {
    const { clock, checks } = this.#deps;
    const never = new AbortController().signal;
    using whole = deadline(clock, diagnosisTiming.examineMs, 'The examination', never);
    const world = this.#worldFor(whole.signal);
    const queue = new PQueue({ concurrency: atOnce });
    const look = (check: Check): Promise<CheckResult> =>
      unlessAborted(
        queue.add(() => this.#look(check, world, whole.signal)),
        whole.signal,
      ).catch(() => silent(check));
    // What waits for others, as without a network, cannot hold up the checks of the machine.
    const machine = Promise.all(checks.filter((check) => check.isOutside !== true).map(look));
    using start = deadline(clock, headStartMs, 'The head start', whole.signal);
    await unlessAborted(machine, start.signal).catch(() => undefined);
    const outside = Promise.all(checks.filter((check) => check.isOutside === true).map(look));
    const results = new Map([...(await machine), ...(await outside)].map((one) => [one.name, one]));
    return checks.flatMap(({ name }) => results.get(name) ?? []);
  }

  async #look(check: Check, world: World, signal: AbortSignal): Promise<CheckResult> {
    const { clock } = this.#deps;
    using limit = deadline(clock, checkMs, `The check ${check.name}`, signal);
    try {
      limit.signal.throwIfAborted();
      return resultOf(check, await unlessAborted(check.look(world, limit.signal), limit.signal));
    } catch (error) {
      if (limit.signal.aborted) return silent(check);
      const message = `It could not be examined: ${world.wordsOf(error)}`;
      return resultOf(check, { status: 'warn', message, remedy: 'Look at the log of the agent, and examine again' });
    }
  }

  /** A world in which the engine is asked once for what it tells of itself. */
  #worldFor(signal: AbortSignal): World {
    const { world, facts } = this.#deps;
    let asked: Promise<EngineFacts> | undefined;
    return { ...world, engine: () => (asked ??= facts(signal)) };
  }
}

const none = Promise.resolve([]);

function silent(check: Check): CheckResult {
  const remedy = 'Examine again; if it stays so, look at what the machine waits for, such as its disk or its engine';
  return resultOf(check, { status: 'warn', message: `The check did not answer within ${checkMs / 1000} s`, remedy });
}

function resultOf({ name, heal }: Check, finding: Finding): CheckResult {
  const { status, message } = finding;
  const isFound = status !== 'pass';
  return {
    name,
    status,
    message: shortened(message),
    remediation: isFound ? shortened(finding.remedy) : null,
    auto_fixable: isFound && finding.isHealable === true && heal !== undefined,
  };
}

function shortened(text: string): string {
  return text.slice(0, diagnosisLimits.chars);
}
