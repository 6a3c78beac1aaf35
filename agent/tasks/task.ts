import type { FailureCode, WireAssignment, WireReport, WireTask } from '../../agent-protocol/assignment.ts';
import type { LogLine } from '../../agent-protocol/logs.ts';
import type { Progress } from '../../agent-protocol/workload.ts';
import type { Turns } from './turns.ts';

/** What an attempt came to, as it is reported. */
export type Outcome = Pick<WireReport, 'image_digest' | 'commit' | 'commit_message'>;

/** What a task reports before its end. */
export interface TaskProgress {
  /** A line of its output. */
  line: (text: string) => void;
  /** What is known so far; it is reported also if the attempt fails. `{}`: the attempt began anew. */
  learned: (outcome: Outcome) => void;
  /** What it does now, and how far that is. Of frequent calls, one per second is reported. */
  at: (progress: Progress) => void;
}

/** A type of task, as this agent carries it out. `S`: its spec. */
export interface Task<S extends WireTask = WireTask> {
  /** Name of the task in messages, such as `The build`. */
  readonly name: string;
  /** Codes of an attempt that did not end before its deadline, and of one that failed by an error without a code. */
  readonly codes: { timeout: FailureCode; failed: FailureCode };
  /**
   * What becomes of an attempt that the end of the agent interrupted. `again`: it runs again, as it changes nothing
   * before its end. `lost`: it is reported as lost and never repeated by itself.
   */
  readonly ifInterrupted: 'again' | 'lost';
  /** The stream of the log that its lines are of. */
  readonly output: LogLine['stream'];
  /** Bounds how many tasks run at a time. */
  readonly turns: Turns;
  /** Called when an attempt ended, with any result. */
  ended?: () => void;
  /** Carries out one attempt. @throws RuntimeFailure; the reason of the signal when that aborts */
  run(item: WireAssignment & { spec: S }, progress: TaskProgress, signal: AbortSignal): Promise<Outcome>;
}

/** The tasks that an agent can carry out, by the type of their spec. */
export type Tasks = { readonly [T in WireTask['type']]: Task<Extract<WireTask, { type: T }>> };
