import type { FailureCode } from '../../../agent-protocol/failure-codes.ts';
import type { BuildOptions, ContainerDetail, Listener, OutputChunk, PullProgress, Usage } from '../runtime.ts';

/** A failure in a script. Retryable by default. */
export interface ScriptedFailure {
  code: FailureCode;
  message: string;
  retryable?: boolean;
}

/** One run of a container. By default it runs until it is stopped, and answers 200 to every request. */
export interface RunScript {
  /** It exits by itself after this time. */
  runForMs?: number;
  /** Code of that exit; 0 by default. */
  exitCode?: number;
  /** The kernel ends the process for lack of memory. */
  oom?: boolean;
  /** Duration of the call that starts it. */
  startBlockMs?: number;
  failStart?: ScriptedFailure;
  /** It does not stop by SIGTERM. */
  ignoreTerm?: boolean;
  /** The only signal that it stops by. */
  stopsOn?: string;
  /** Time from the request to stop to its exit with code 0. */
  stopTakesMs?: number;
  /** HTTP status of its answers, one for all requests or by request; `undefined`: it does not listen. */
  http?: number | ((request: { port: number; path: string; runningMs: number }) => number | undefined);
  /** Whether it accepts connections, by port; by default it does. */
  tcp?: (port: number) => boolean;
  /** Where its programs listen; absent: that cannot be known. */
  listeners?: readonly Listener[];
  /** It refuses connections until it has run for this time. */
  listenAfterMs?: number;
  /** Programs that are run in it, by command; by default each ends at once with code 0. */
  programs?: (program: ProgramRequest) => ProgramScript;
  /** Result of the image's health check, by the time of the run; absent: the image has none. */
  health?: (runningMs: number) => NonNullable<ContainerDetail['health']>;
  /** What it has used, by the time of the run; by default 1 MiB of memory and nothing else. */
  usage?: (runningMs: number) => Usage;
  /** Programs that it has for terminals; by default `/bin/sh` and `cat`. See `mock-exec.ts`. */
  installed?: readonly string[];
  output?: readonly { afterMs: number; text: string; stream?: OutputChunk['stream'] }[];
}

export interface ProgramRequest {
  command: readonly string[];
  user: string | undefined;
  /** Time since the start of the container. */
  runningMs: number;
}

export interface ProgramScript {
  /** 0 by default. */
  exitCode?: number;
  output?: string;
  takesMs?: number;
}

/** One script for every run, or a script by the number of the start; the first is 1. */
export type Script = RunScript | ((start: number) => RunScript);

export interface ImageScript {
  runs?: Script;
  /** The image is on the machine from the beginning; otherwise it must be pulled. */
  local?: boolean;
  /** Its id; by default one that follows from the reference. */
  id?: string;
  /** Its repository digest; by default its id. */
  digest?: string;
  labels?: Readonly<Record<string, string>>;
  /** Its files, by path. */
  files?: Readonly<Record<string, string>>;
  /** What its containers run. */
  program?: readonly string[];
  /** Ports at which its program listens by its own account. */
  exposed?: readonly number[];
  /** Paths at which a container gets an anonymous volume. */
  volumes?: readonly string[];
  pullTakesMs?: number;
  /** What is reported of the pull, evenly over its time; by default one layer of 1000 bytes at its end. */
  pullSteps?: readonly PullProgress[];
  failPull?: ScriptedFailure;
  failCreate?: ScriptedFailure;
}

export interface BuildScript {
  lines?: readonly string[];
  takesMs?: number;
  failure?: ScriptedFailure;
  /** Script of containers of the built image. */
  runs?: Script;
}

/** Returns the script of a build by its options. */
export type BuildScripts = (options: Omit<BuildOptions, 'context'>) => BuildScript;
