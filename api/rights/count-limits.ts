import { maxPreviews, maxUnapproved } from '../../store/kinds/preview.ts';
import { maxSyncs } from '../../store/kinds/sync.ts';
import { maxInstances } from '../../store/kinds/template-instance.ts';
import { maxEnvironments } from '../../store/kinds/project.ts';
import { maxVolumes } from '../../store/kinds/volume.ts';
import { conflicting, tooMany } from '../ground/api-error.ts';

/**
 * Bounds on the number of objects that users make. A request counts what was committed before it, so that concurrent
 * requests may exceed a bound slightly.
 */
export const countLimits = {
  projectsPerTenant: 1000,
  projectsPerUser: 200,
  applicationsPerProject: 5000,
  volumesPerProject: maxVolumes,
  databasesPerProject: 500,
  functionsPerProject: 500,
  /** Versions of one function that are being built. */
  activeVersionsPerFunction: 5,
  webhooksPerProject: 100,
  previewsPerProject: maxPreviews,
  /** Previews of forks of which no commit was approved yet. */
  unapprovedPreviewsPerProject: maxUnapproved,
  /** Invites that one sender sends, to any addresses. */
  invitesPerSenderAndDay: 50,
  environmentsPerProject: maxEnvironments,
  /** Members in addition to the owner. */
  membersPerProject: 500,
  /** Invites that wait to be accepted. */
  openInvitesPerProject: 200,
  /** Invites in any state: finished ones are kept for some days. */
  invitesPerProject: 1000,
  /** Invites of the whole tenant to one address, so that inviting and cancelling again cannot flood a mailbox. */
  invitesPerAddressAndDay: 20,
  invitesPerTenant: 1000,
  applicationsPerEnvironment: 1000,
  serversPerTenant: 1000,
  /** Commands of one application that have not ended. */
  activeRunsPerApplication: 10,
  sshKeysPerTenant: 500,
  gitCredentialsPerTenant: 500,
  registriesPerTenant: 500,
  backupDestinationsPerTenant: 100,
  templatesPerTenant: 500,
  templateInstancesPerProject: maxInstances,
  syncsPerProject: maxSyncs,
  schedulesPerObject: 10,
  backupsPerObject: 1000,
  /** Backups of one object that have not ended. */
  activeBackupsPerObject: 5,
  serviceKeysPerUser: 100,
  /** Comparisons of one application with its branch that are under way. */
  comparisonsPerApplication: 10,
  /** Healings of one server that are under way or ended within the last hour. */
  healingsPerServer: 20,
  /** Validations of one server that are under way or ended within the last minute. */
  validationsPerServer: 5,
  /** Terminals that wait for their user or are open. */
  terminalsPerUser: 10,
  /** Terminals of one server: as many as its agent serves. */
  terminalsPerServer: 32,
  /** Recorded answers to requests with an `Idempotency-Key`, of one user or service key. */
  answersPerCaller: 2000,
} as const;

/** `where` names the owner of the objects, `what` the objects, `remedy` what to do. @throws ApiError CONFLICT */
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
 * Does what {@link requireRoom} does for objects that expire. `freeAt` returns when the oldest expires and `now` is the present,
 * both in milliseconds of the wall clock.
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
