/** Tokens in memory whose jobs have not begun. One that is forgotten is replaced by a new one. */
const most = 1000;

/** Join tokens that are to be sent to machines: they exist here and there, the store has their hashes. */
export class JoinTokens {
  readonly #make: (server: string) => string;
  readonly #tokens = new Map<string, string>();

  constructor(make: (server: string) => string) {
    this.#make = make;
  }

  /** The last token of an operation. */
  of(operation: string): string | undefined {
    return this.#tokens.get(operation);
  }

  /** Makes a token in place of the one before. */
  renew(operation: string, server: string): string {
    const token = this.#make(server);
    this.#tokens.delete(operation);
    this.#tokens.set(operation, token);
    const [oldest] = this.#tokens.keys();
    if (this.#tokens.size > most && oldest !== undefined) this.#tokens.delete(oldest);
    return token;
  }

  forget(operation: string): void {
    this.#tokens.delete(operation);
  }
}
