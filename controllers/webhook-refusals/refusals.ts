import type { ObjectChange } from '../../store/mirror.ts';
import { isKind, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { aborted } from '../runtime/aborted.ts';
import type { Background } from '../runtime/manager.ts';

/** A refusal that is older than this when a leader begins was there for the one before. */
const recentMs = 3_600_000;

/** What was wrong with a refused call, in words that follow "as", and what helps. */
const faults: Readonly<Record<string, string>> = {
  no_signature: 'they have no signature: give the git host the secret of the webhook',
  wrong_signature: 'their signature is not that of its secret: give the git host this one, or make another one',
  outside_window: 'they were signed more than five minutes ago: compare the clocks',
};

/**
 * Notifies the users of a project when calls of one of its webhooks begin to be refused: once a day while that goes on.
 * The API counts the refusals in the observed record of the webhook.
 */
export const webhookRefusals: Background = {
  name: 'webhook-refusals',
  async run({ signal }, { mirror, clock, log, notify }) {
    const tell = (it: ReadonlyResource<'git_webhook'>): void => {
      const { last_refused_at: at, refused_because: because = '' } = it.observed ?? {};
      if (at === undefined || !isStaying(it)) return;
      const { name } = it.desired;
      void notify(it, `${it.meta.id}/refused/${at.slice(0, 10)}`, {
        type: 'webhook_refused',
        severity: 'warning',
        title: `Calls of webhook ${name} are refused`,
        message: `Calls of webhook ${name} are refused, as ${faults[because] ?? 'they are not signed as they should be'}. What they announce is deployed by the next look at the branch only`,
        log,
      });
    };
    using subscriptions = new DisposableStack();
    subscriptions.defer(
      mirror.subscribe(({ before, after }: ObjectChange) => {
        if (after === undefined || !isKind(after, 'git_webhook')) return;
        const was = before !== undefined && isKind(before, 'git_webhook') ? before.observed?.refused : undefined;
        if ((after.observed?.refused ?? 0) > (was ?? 0)) tell(after);
      }),
    );
    const since = clock.now().getTime() - recentMs;
    for (const tenant of mirror.tenants())
      for (const it of mirror.tenant(tenant).list('git_webhook'))
        if (Date.parse(it.observed?.last_refused_at ?? '') > since) tell(it);
    await aborted(signal);
  },
};
