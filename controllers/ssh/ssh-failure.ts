import type { HostKey } from './host-key.ts';

/**
 * `unreachable` stands for every way in which no SSH server was met, so that it tells a scanner nothing about what else
 * listens there.
 */
export type SshFailureCode =
  | 'incomplete'
  | 'unreachable'
  | 'not_allowed'
  | 'host_key_changed'
  | 'auth_failed'
  | 'bad_key'
  | 'cut'
  | 'timeout'
  | 'no_shell'
  | 'no_root';

/** A machine could not be used by SSH; `message` and `remedy` are for its operator: what happened, and what to do. */
export class SshFailure extends Error {
  readonly code: SshFailureCode;
  readonly remedy: string;
  /** The key that the machine showed, if it came to that. */
  readonly hostKey: HostKey | undefined;

  constructor(
    code: SshFailureCode,
    message: string,
    remedy: string,
    options: ErrorOptions & { hostKey?: HostKey | undefined } = {},
  ) {
    super(message, options);
    this.name = 'SshFailure';
    this.code = code;
    this.remedy = remedy;
    this.hostKey = options.hostKey;
  }
}
