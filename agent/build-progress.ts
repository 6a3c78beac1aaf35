/** The commit that a build is of. */
export interface BuildSource {
  commit: string;
  commitMessage: string;
}

/** What a build tells before its end. */
export interface BuildProgress {
  /** A line of its output. */
  line: (text: string) => void;
  /** The files of the commit are there; without one, the build begins again. */
  checkedOut: (source: BuildSource | undefined) => void;
}
