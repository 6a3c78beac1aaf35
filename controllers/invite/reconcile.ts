import { createHash } from 'node:crypto';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isRefused } from '../mail/mailer.ts';
import type { Mail } from '../mail/mailer.ts';
import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { limits } from '../runtime/limits.ts';
import { invitationMail } from './mail.ts';
import { conditionsOf, deliveryOf, isOver } from './states.ts';
import type { Delivery } from './states.ts';

type Invite = ReadonlyResource<'invite'>;

export interface InviteSettings {
  /** Its `send` resolves when the mail was handed over. */
  mailer: { send(mail: Mail, signal: AbortSignal): Promise<void> };
  /** There is no mail server: the mailer writes to the log. */
  isOnlyLogged: boolean;
  /** Returns unguessable random bytes. */
  bytes(count: number): Buffer;
  /** Address at which users reach this installation, without a slash at its end. */
  publicUrl: string;
}

/** A token that is to be mailed; it exists only here and in the mail. */
interface Letter {
  token: string;
  attempts: number;
  /** Earliest time of the next attempt, on the monotonic clock. */
  notBefore: number;
  isSent: boolean;
}

/**
 * Mails invites. The hash of a token is stored before its mail is sent, so that a token that arrives is good. A new
 * leader in between does not know the token: it makes another one and mails again.
 */
export function inviteController(settings: InviteSettings): Controller<'invite'> {
  const letters = new Map<string, Letter>();
  const sent: Delivery = settings.isOnlyLogged ? 'OnlyLogged' : 'Sent';

  return {
    name: 'invite',
    kind: 'invite',
    reads: ['project', 'user'],
    children: [],
    wakes: [],
    begin: () => letters.clear(),
    async reconcile(it, ctx) {
      const key = `${it.meta.tenant}/${it.meta.id}`;
      const delivery = deliveryOf(it);
      if (isOver(delivery) || !isAwaited(it, ctx)) {
        letters.delete(key);
        return verdict(it, isOver(delivery) ? delivery : undefined, { settled: true });
      }
      const letter = letters.get(key);
      if (letter === undefined || !hashesOf(it).includes(hashOf(letter.token))) return prepare(it, key);
      if (letter.isSent) return verdict(it, sent, { settled: true });
      const left = letter.notBefore - ctx.clock.monotonic();
      if (left > 0) return verdict(it, delivery, { again: left, because: 'the next attempt to send its mail' });
      return send(it, letter, ctx);
    },
  };

  function prepare(it: Invite, key: string): Verdict<'invite'> {
    const letter: Letter = {
      token: settings.bytes(32).toString('base64url'),
      attempts: 0,
      notBefore: Number.NEGATIVE_INFINITY,
      isSent: false,
    };
    letters.delete(key);
    letters.set(key, letter);
    for (const oldest of letters.keys()) {
      if (letters.size <= limits.invites.tokens) break;
      letters.delete(oldest);
    }
    const good = [...hashesOf(it), hashOf(letter.token)].slice(-limits.invites.goodTokens);
    return {
      ...verdict(it, 'Sending', { again: 0, because: 'its mail to be sent' }),
      observed: { token_hashes: good },
    };
  }

  async function send(it: Invite, letter: Letter, ctx: Context): Promise<Verdict<'invite'>> {
    const { project_id, invited_by } = it.desired;
    const mail = invitationMail({
      invite: it,
      project: project_id === undefined ? undefined : ctx.view.get('project', project_id),
      inviter: ctx.view.get('user', invited_by),
      token: letter.token,
      publicUrl: settings.publicUrl,
    });
    const late = new AbortController();
    const cancel = ctx.clock.timer(limits.invites.sendMs, () =>
      late.abort(new Error('The mail server did not take the mail in time')),
    );
    try {
      await settings.mailer.send(mail, AbortSignal.any([ctx.signal, late.signal]));
    } catch (error) {
      ctx.signal.throwIfAborted();
      return failed(it, letter, error, ctx);
    } finally {
      cancel();
    }
    letter.isSent = true;
    return verdict(it, sent, { settled: true });
  }

  function failed(it: Invite, letter: Letter, error: unknown, ctx: Context): Verdict<'invite'> {
    ctx.log.info({ err: error }, 'Cannot mail an invite: its condition Delivered shows what follows');
    letter.attempts += 1;
    if (isRefused(error)) return verdict(it, 'Refused', { settled: true });
    const { attempts, firstPauseMs, maxPauseMs } = limits.invites;
    if (letter.attempts >= attempts) return verdict(it, 'GivenUp', { settled: true });
    const pause = Math.min(firstPauseMs * 2 ** (letter.attempts - 1), maxPauseMs);
    letter.notBefore = ctx.clock.monotonic() + pause;
    return verdict(it, 'NotSent', { again: pause, because: 'the next attempt to send its mail' });
  }
}

/** Whether the mail is still needed: the invite is pending, and its project exists and is not being deleted. */
function isAwaited({ desired }: Invite, { view, clock }: Context): boolean {
  if (desired.state !== 'pending' || Date.parse(desired.expires_at) <= clock.now().getTime()) return false;
  if (desired.project_id === undefined) return true;
  return isStaying(view.get('project', desired.project_id));
}

function verdict(it: Invite, delivery: Delivery | undefined, next: Next): Verdict<'invite'> {
  return { observed: { token_hashes: [...hashesOf(it)] }, conditions: conditionsOf(delivery), next };
}

function hashesOf({ observed }: Invite): readonly string[] {
  return observed?.token_hashes ?? [];
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
