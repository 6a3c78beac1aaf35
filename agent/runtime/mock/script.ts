import type { FailureCode } from '../../../agent-protocol/assignment.ts';
import type { BuildOptions, OutputChunk } from '../runtime.ts';

/** A failure that a script asks for. Retryable unless told. */
export interface ScriptedFailure {
  code: FailureCode;
  message: string;
  retryable?: boolean;
}

/** What one run of a container does. Without anything: runs until it is stopped, answers 200 to every request. */
export interface RunScript {
  /** Exits by itself after so long. */
  runForMs?: number;
  /** Of that exit; 0 unless told. */
  exitCode?: number;
  /** That exit is the kernel's, for lack of memory. */
  oom?: boolean;
  /** The call to start it takes so long. */
  startBlockMs?: number;
  failStart?: ScriptedFailure;
  /** Stops only when it is killed. */
  ignoreTerm?: boolean;
  /** Between being asked to stop and its exit with code 0. */
  stopTakesMs?: number;
  /** Status of its answers, the same for all requests or by what is asked; `undefined`: it does not listen. */
  http?: number | ((request: { port: number; path: string; runningMs: number }) => number | undefined);
  /** Refuses connections until it ran so long. */
  listenAfterMs?: number;
  output?: readonly { afterMs: number; text: string; stream?: OutputChunk['stream'] }[];
}

/** The same for every run, or by the number of the start: 1 is the first. */
export type Script = RunScript | ((start: number) => RunScript);

export interface ImageScript {
  runs?: Script;
  /** Whether the image is on the machine from the beginning; else it must be pulled. */
  local?: boolean;
  /** Digest of its repository; without one the id stands for it. */
  digest?: string;
  pullTakesMs?: number;
  failPull?: ScriptedFailure;
  failCreate?: ScriptedFailure;
}

export interface BuildScript {
  lines?: readonly string[];
  takesMs?: number;
  failure?: ScriptedFailure;
  /** What containers of the built image do. */
  runs?: Script;
}

/** What becomes of a build, by what was asked for. */
export type BuildScripts = (options: Omit<BuildOptions, 'context'>) => BuildScript;
