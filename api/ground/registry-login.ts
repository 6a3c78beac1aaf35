/** What to log in to a registry with. */
export interface RegistryLogin {
  /** `HOST` or `HOST:PORT` in lower case. */
  address: string;
  username: string;
  password: string;
  /** The registries that the tenant allows; one in a private network must be named in full. */
  allowed: readonly string[];
}

/** What a login came to; `message` is for people, and has nothing that the registry sent. */
export interface RegistryLoginResult {
  failure: 'wrong_credentials' | 'unreachable' | 'not_allowed' | undefined;
  message: string;
}

/** Logs in to a registry as a container engine does. Changes nothing there. @throws the signal's reason */
export type LogIn = (login: RegistryLogin, signal: AbortSignal) => Promise<RegistryLoginResult>;
