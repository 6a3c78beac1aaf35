/** A message of plain text to one address. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
}

/** Sends mail; given by whoever starts the interface. */
export interface Mailer {
  /** Resolves when the mail was taken over. @throws Error if it was given up; the reason of `signal` if that aborts. */
  send(mail: Mail, signal: AbortSignal): Promise<void>;
}
