/** The two ends of a session: what the program writes, and what the reader types. */
export interface TerminalLink {
  /** Calls back with output, until the returned function is called. */
  readonly subscribe: (onOutput: (output: string | Uint8Array) => void) => () => void;
  readonly send: (text: string) => void;
  readonly resize: (columns: number, rows: number) => void;
}
