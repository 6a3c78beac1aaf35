import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { keys } from '../../store/keys.ts';
import type { Mirror } from '../../store/mirror.ts';
import { untilClosed } from './until-closed.ts';

/** Pause before a connected agent that refused or ended something is asked again. */
const retryMs = 2000;

/** Waits until a server's agent starts a new session; if it is connected, waits 2 s. Never rejects. */
export async function agentBack(
  { mirror, clock }: { mirror: Pick<Mirror, 'key' | 'subscribeKeys'>; clock: Clock },
  tenant: string,
  server: string,
  signal: AbortSignal,
): Promise<void> {
  const key = keys.agent(tenant, server);
  const back = new AbortController();
  const unsubscribe = mirror.subscribeKeys((change) => {
    if (change.key === key && change.after !== undefined) back.abort();
  });
  const either = AbortSignal.any([signal, back.signal]);
  try {
    if (mirror.key(key) === undefined) await untilClosed(either);
    else await wait(clock, retryMs, either).catch(() => undefined);
  } finally {
    unsubscribe();
  }
}
