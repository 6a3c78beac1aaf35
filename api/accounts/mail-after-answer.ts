import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { RequestContext } from '../endpoint/context.ts';

/**
 * Sends a mail after the answer, so that the time of the answer reveals nothing about the address. It is given up after
 * `withinMs`, when it would be of no use any more; `lack` is logged if it was not sent.
 */
export function mailAfterAnswer(
  { mailer, clock, log }: Pick<RequestContext, 'mailer' | 'clock' | 'log'>,
  mail: Parameters<RequestContext['mailer']['send']>[0],
  { withinMs, lack }: { withinMs: number; lack: string },
): void {
  setImmediate(() => {
    const limit = signalAfter(clock, withinMs);
    mailer
      .send(mail, limit.signal)
      .catch((error: unknown) => log.warn({ err: error }, lack))
      .finally(limit.cancel);
  });
}
