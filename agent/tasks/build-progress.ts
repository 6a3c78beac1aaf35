import type { Progress } from '../../agent-protocol/workload.ts';

/** The commit that a build is of. */
export interface BuildSource {
  commit: string;
  commitMessage: string;
  /** The Dockerfile that was generated for it. */
  dockerfile?: string;
}

/** What a build reports before its end. */
export interface BuildProgress {
  /** A line of its output. */
  line: (text: string) => void;
  /** The files of the commit are checked out; `undefined`: the build begins again. */
  checkedOut: (source: BuildSource | undefined) => void;
  /** What it does now, and how far that is. */
  at: (progress: Progress) => void;
}
