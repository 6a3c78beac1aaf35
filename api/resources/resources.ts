import type { KindName } from '../../store/kinds/kinds.ts';
import type { ObjectChange, TenantView } from '../../store/mirror.ts';
import { applications } from './application.ts';
import { databases } from './database.ts';
import { backupSchedules } from './backup-schedule.ts';
import { backups } from './backup.ts';
import { backupDestinations } from './backup-destination.ts';
import { deployments } from './deployment.ts';
import { environments } from './environment.ts';
import { functions, functionVersions } from './function.ts';
import { gitWebhooks, webhookDeliveries } from './git-webhook.ts';
import { invites } from './invite.ts';
import { members } from './member.ts';
import { notifications } from './notification.ts';
import { previews } from './preview.ts';
import { projects } from './project.ts';
import type { ChangeOf, Resource } from './resource.ts';
import { restores } from './restore.ts';
import { runs } from './run.ts';
import { servers } from './server.ts';
import { settings } from './settings.ts';
import { registries } from './registry.ts';
import { gitCredentials } from './git-credential.ts';
import { sshKeys } from './ssh-key.ts';
import { syncs } from './sync.ts';
import { templateInstances } from './template-instance.ts';
import { templates } from './template.ts';
import { serviceKeys, sessions, users } from './user.ts';
import { volumes } from './volume.ts';

/** How the API shows each kind, or why it never does. `/ws/watch` sends changes of one revision in this order. */
export const resources = {
  project: projects,
  environment: environments,
  server: servers,
  application: applications,
  deployment: deployments,
  database: databases,
  volume: volumes,
  run: runs,
  function: functions,
  function_version: functionVersions,
  ssh_key: sshKeys,
  git_credential: gitCredentials,
  git_webhook: gitWebhooks,
  webhook_delivery: webhookDeliveries,
  preview: previews,
  template: templates,
  template_instance: templateInstances,
  sync: syncs,
  registry: registries,
  backup_destination: backupDestinations,
  backup_schedule: backupSchedules,
  backup: backups,
  restore: restores,
  member: members,
  invite: invites,
  user: users,
  session: sessions,
  service_key: serviceKeys,
  notification: notifications,
  settings,
  wal_archive: { never: 'The recovery window of a database shows what it has' },
  assignment: { never: 'The instances of an application show what a user may know of it' },
  operation: { never: 'The request that began it answers with its result' },
  login_code: { never: 'It is a secret' },
} as const satisfies { readonly [K in KindName]: Resource<K> | { never: string } };

/** Kinds that the API shows; a path can name their objects. */
export type ResourceKind = {
  [K in KindName]: (typeof resources)[K] extends { never: string } ? never : K;
}[KindName];

/** How the API shows a kind, for code that is generic in the kind. */
export function resourceOf<K extends ResourceKind>(kind: K): Resource<K> {
  return resources[kind] as unknown as Resource<K>; // an indexed access is not correlated with its key
}

function isWatched(kind: KindName): kind is ResourceKind {
  const resource: { watch: object } | { never: string } = resources[kind];
  return 'watch' in resource && 'shows' in resource.watch;
}

/** Kinds whose changes `/ws/watch` sends, in the order of the table. */
export const watchedKinds: readonly ResourceKind[] = (Object.keys(resources) as KindName[]) // the keys are the names
  .filter(isWatched);

type IdsOf = (change: ChangeOf<KindName>, view: TenantView) => readonly string[];

/** Kind of a changed object → the kinds whose answers show something of it. */
const showing = new Map<string, (readonly [ResourceKind, IdsOf])[]>();
for (const kind of watchedKinds) {
  const { watch } = resourceOf(kind);
  for (const [changed, idsOf] of Object.entries('shows' in watch ? watch.shows : {}))
    // it is called with changes of this kind only
    showing.set(changed, [...(showing.get(changed) ?? []), [kind, idsOf as IdsOf]]);
}

/** Objects whose answers show something of the changed object, and may be other ones now. */
export function shownIn(change: ObjectChange, view: TenantView): (readonly [kind: ResourceKind, id: string])[] {
  return (showing.get(change.kind) ?? []).flatMap(([kind, idsOf]) =>
    idsOf(change, view).map((id) => [kind, id] as const),
  );
}
