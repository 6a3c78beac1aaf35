/** Why a dump cannot be imported, as a sentence for the user. */
export class ImportFault extends Error {
  readonly code: 'invalid_path' | 'invalid_dump' | 'invalid_source' | 'no_space' | 'source_failed';

  constructor(code: ImportFault['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
