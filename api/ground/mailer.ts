/** A plain-text message to one address. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
}

/** Sends mail; the program that starts the API provides it. */
export interface Mailer {
  /**
   * Resolves when the mail server took the mail. @throws Error if it gave up; the reason of `signal` if that aborts.
   */
  send(mail: Mail, signal: AbortSignal): Promise<void>;
}
