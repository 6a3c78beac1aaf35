/** How the operators of one kind of engine repair it, in the words of its own tools. */
export interface TroubleWords {
  /** Reason and advice by the code of the innermost cause of an error. */
  byCode: Readonly<Record<string, { reason: 'EngineNotRunning' | 'EngineForbidden'; advice: string }>>;
  /** Advice for an engine that takes calls and does not answer them. */
  hangs: string;
}
