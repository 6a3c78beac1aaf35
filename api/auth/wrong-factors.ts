import type { Clock } from '../../time/clock.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { commit } from '../../store/unit.ts';
import { tooMany } from '../ground/api-error.ts';
import type { RequestInfo } from '../ground/dependencies.ts';
import type { Random } from '../ground/random.ts';
import { countedWith, dayMs, knownWith, secondsUntil, within } from './counted-places.ts';
import type { Asking } from './counted-places.ts';

type User = ReadonlyResource<'user'>;
type Context = { clock: Clock; request: RequestInfo };

/** Wrong codes in a day: for each known place, and for all unknown places together. */
const failuresPerDay = 20;
/** The user is told of so many of a day: fewer are typing errors. */
const toldAt = 5;

/**
 * Requires that one more code of the authenticator application may be tried at a login.
 *
 * @throws ApiError TOO_MANY_REQUESTS after twenty wrong ones within a day at this place if the user logged in here, else at all unknown
 *   places together
 */
export function requireFactorRoom(ctx: Context, { desired: { two_factor } }: User): void {
  const asking = askingOf(ctx, two_factor);
  const failures = countedWith(within(two_factor?.failed, dayMs, asking.now), asking);
  const [first] = failures;
  if (first === undefined || failures.length < failuresPerDay) return;
  throw tooMany(
    'Too many wrong codes of the authenticator application were tried for this account today: use a recovery code, or log in where you did before',
    secondsUntil(first, dayMs, asking.now),
  );
}

/**
 * Counts a wrong code after a right password or mailed code. The fifth of a day makes a notification. Returns whether it did.
 *
 * @throws conflict: then judge the code again
 */
export async function countWrongFactor(
  { repo, random, ...ctx }: Context & { repo: Pick<Repository, 'begin'>; random: Random },
  user: User,
): Promise<boolean> {
  const unit = repo.begin();
  const asking = askingOf(ctx, user.desired.two_factor);
  const { source, now } = asking;
  const at = new Date(now).toISOString();
  const failed = [...within(user.desired.two_factor?.failed, dayMs, now), { source, at }];
  unit.change(user, ({ two_factor }) => {
    if (two_factor !== undefined) two_factor.failed = failed;
  });
  const isTold = countedWith(failed, asking).length === toldAt;
  if (isTold)
    unit.create('notification', random.id(), {
      user_id: user.meta.id,
      type: 'second_factor_wrong',
      severity: 'warning',
      ...wrongFactorText(ctx.request),
      read: false,
    });
  await commit(unit);
  return isTold;
}

/** What a user is told of wrong codes. */
export function wrongFactorText({ address }: Pick<RequestInfo, 'address'>): { title: string; message: string } {
  return {
    title: 'Wrong second factors for your account',
    message: `Within a day, ${toldAt} logins had your password or a code from your mailbox, and a wrong code of the authenticator application; the last one came from ${address}. If that was not you, change your password, and see who reads your mail`,
  };
}

/** From now on this place is a known one, and its wrong codes are forgotten. */
export function markProven(ctx: Context, draft: DesiredOf<'user'>): void {
  const { two_factor } = draft;
  if (two_factor === undefined) return;
  const asking = askingOf(ctx, two_factor);
  two_factor.failed = two_factor.failed.filter(({ source }) => source !== asking.source);
  two_factor.known = knownWith(asking);
}

function askingOf({ clock, request }: Context, factor: User['desired']['two_factor']): Asking {
  return { source: request.address, now: clock.now().getTime(), known: factor?.known };
}
