import { conflicting, tooMany } from './api-error.ts';

/**
 * How many there may be of what users make by themselves. A request counts what was committed before it, so that some
 * requests at the same moment may go a little above.
 */
export const caps = {
  projectsPerTenant: 1000,
  projectsPerUser: 200,
  applicationsPerProject: 5000,
  /** Of one sender, to whatever addresses. */
  invitesPerSenderAndDay: 50,
  environmentsPerProject: 100,
  /** Beside the owner. */
  membersPerProject: 500,
  /** Invites that wait to be accepted. */
  openInvitesPerProject: 200,
  /** Invites of whatever state: what is over is kept for some days. */
  invitesPerProject: 1000,
  /** Of the whole tenant: nobody's mailbox is flooded by inviting and cancelling. */
  invitesPerAddressAndDay: 20,
  invitesPerTenant: 1000,
  applicationsPerEnvironment: 1000,
  serversPerTenant: 1000,
  serviceKeysPerUser: 100,
  /** Comparisons of one application with its branch that are under way. */
  comparisonsPerApplication: 10,
  /** Answers kept for repeated requests of one user or service key. */
  answersPerCaller: 2000,
} as const;

/** `where` names who has that many, `what` says of what, `remedy` what to do. @throws ApiError CONFLICT */
export function requireRoom(
  count: number,
  most: number,
  { where, what, remedy }: { where: string; what: string; remedy: string },
): void {
  if (count < most) return;
  const message = `${where} has ${count} ${what} already and at most ${most} are allowed: ${remedy}`;
  throw conflicting(message, [{ field: '', reason: 'limit', message }]);
}

/**
 * As {@link requireRoom}, of what goes away by itself: `freeAt` tells when the oldest does, by the wall clock as `now`.
 *
 * @throws ApiError TOO_MANY_REQUESTS
 */
export function requireRoomFor(
  count: number,
  most: number,
  { what, remedy, now, freeAt }: { what: string; remedy: string; now: number; freeAt: () => number },
): void {
  if (count < most) return;
  const seconds = Math.ceil((freeAt() - now) / 1000);
  throw tooMany(`The caller has ${count} ${what} and at most ${most} are kept: ${remedy}`, Math.max(1, seconds));
}
