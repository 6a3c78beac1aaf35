import type { z } from 'zod';
import { application, deployment } from './application.ts';
import { assignment } from './assignment.ts';
import { database } from './database.ts';
import { backup } from './backup.ts';
import { backupSchedule } from './backup-schedule.ts';
import { backupDestination } from './backup-destination.ts';
import { functionKind, functionVersion } from './function.ts';
import { gitCredential } from './git-credential.ts';
import { loginCode, serviceKey, session, user } from './identity.ts';
import { gitWebhook, webhookDelivery } from './git-webhook.ts';
import { invite, member } from './membership.ts';
import { notification, operation } from './operation.ts';
import { environment, project } from './project.ts';
import { run } from './run.ts';
import { preview } from './preview.ts';
import { restore } from './restore.ts';
import { registry } from './registry.ts';
import { server } from './server.ts';
import { settings } from './settings.ts';
import { sshKey } from './ssh-key.ts';
import { sync } from './sync.ts';
import { template } from './template.ts';
import { templateInstance } from './template-instance.ts';
import { walArchive } from './wal-archive.ts';
import { volume } from './volume.ts';

/** Every kind of object, by its name. */
export const kinds = {
  user,
  session,
  service_key: serviceKey,
  login_code: loginCode,
  project,
  environment,
  server,
  application,
  deployment,
  assignment,
  operation,
  notification,
  member,
  invite,
  settings,
  volume,
  ssh_key: sshKey,
  git_credential: gitCredential,
  run,
  git_webhook: gitWebhook,
  webhook_delivery: webhookDelivery,
  preview,
  registry,
  database,
  backup_destination: backupDestination,
  backup,
  backup_schedule: backupSchedule,
  restore,
  wal_archive: walArchive,
  template,
  template_instance: templateInstance,
  function: functionKind,
  function_version: functionVersion,
  sync,
} as const;

export type KindName = keyof typeof kinds;
export type DesiredOf<K extends KindName> = z.output<(typeof kinds)[K]['desired']>;
export type ObservedOf<K extends KindName> = z.output<(typeof kinds)[K]['observed']>;

export function isKindName(value: string): value is KindName {
  return Object.hasOwn(kinds, value);
}
