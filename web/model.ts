import type { components } from './api-types.d.ts';

type Schemas = components['schemas'];

export type Project = Schemas['Project'];
export type Environment = Schemas['Environment'];
/** Users of projects see only the summary of a server. */
export type Server = Schemas['Server'] | Schemas['ServerSummary'];
export type Application = Schemas['Application'];
export type Deployment = Schemas['Deployment'];
export type DeploymentDetail = Schemas['DeploymentDetail'];
export type Instance = Schemas['Instance'];
export type Invite = Schemas['Invite'];
export type Member = Schemas['Member'];
export type User = Schemas['User'];
export type Notification = Schemas['Notification'];
export type ObjectEvent = Schemas['Events'][number];

/** The objects that `/ws/watch` sends, by kind. All that is typed by kind follows from it. */
export interface Objects {
  project: Project;
  environment: Environment;
  server: Server;
  application: Application;
  deployment: Deployment;
  database: Schemas['Database'];
  volume: Schemas['Volume'];
  run: Schemas['Run'];
  function: Schemas['Function'];
  ssh_key: Schemas['SshKey'];
  git_credential: Schemas['GitCredential'];
  git_webhook: Schemas['GitWebhook'];
  preview: Schemas['Preview'];
  template: Schemas['Template'];
  template_instance: Schemas['TemplateInstance'];
  sync: Schemas['Sync'];
  registry: Schemas['Registry'];
  backup_destination: Schemas['BackupDestination'];
  backup_schedule: Schemas['BackupSchedule'];
  backup: Schemas['Backup'];
  restore: Schemas['Restore'];
}

export type Kind = keyof Objects;
export type ObjectOf<K extends Kind> = Objects[K];

const watched: Readonly<Record<Kind, true>> = {
  project: true,
  environment: true,
  server: true,
  application: true,
  deployment: true,
  database: true,
  volume: true,
  run: true,
  function: true,
  ssh_key: true,
  git_credential: true,
  git_webhook: true,
  preview: true,
  template: true,
  template_instance: true,
  sync: true,
  registry: true,
  backup_destination: true,
  backup_schedule: true,
  backup: true,
  restore: true,
};

export const kinds = Object.keys(watched) as readonly Kind[]; // the keys of the object

export function byName<T extends { name: string }>(objects: Iterable<T>): T[] {
  return [...objects].toSorted((a, b) => a.name.localeCompare(b.name));
}
