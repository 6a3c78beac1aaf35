/** Size of a terminal in characters. */
export interface TerminalSize {
  cols: number;
  rows: number;
}

export interface ExecOptions {
  /** Program and arguments, which no shell reads. */
  command: readonly [string, ...string[]];
  /** Gives the process a terminal of this size. */
  tty?: TerminalSize;
  /** Name or id, also with a group. Absent: the user of the container. */
  user?: string;
  /** Variables beside those of the container. */
  env?: Readonly<Record<string, string>>;
  /** Gets standard error, which is not in the output then; for a process without a terminal. */
  errors?: (data: Uint8Array) => void;
}

/** A further process in a running container. */
export interface ExecProcess {
  readonly input: {
    /** Resolves when there is room for more. Input of a process that has ended is dropped. */
    write(data: Uint8Array): Promise<void>;
    /** The process finds the end of its input after what was written; with a terminal, by a Ctrl-D. */
    end(): void;
  };
  /** Standard output and error of the process as one, unless `errors` gets the latter. It waits while it is not read. */
  readonly output: AsyncIterable<Uint8Array>;
  /** Sets the size of the terminal. Does nothing if the process has ended or has no terminal. */
  resize(size: TerminalSize): Promise<void>;
  /** Resolves when the process is gone, with its exit code if it is known. Never rejects. */
  readonly exited: Promise<number | undefined>;
}

/** A process could not be started in a container for a reason that lies in the container. */
export class ExecFailure extends Error {
  readonly code: 'not_running' | 'no_program';

  constructor(code: ExecFailure['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ExecFailure';
    this.code = code;
  }
}
