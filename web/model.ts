import type { components } from './api-types.d.ts';

type Schemas = components['schemas'];

export type Project = Schemas['Project'];
export type Environment = Schemas['Environment'];
/** Users of projects see only the summary of a server. */
export type Server = Schemas['Server'] | Schemas['ServerSummary'];
export type Application = Schemas['Application'];
export type Deployment = Schemas['Deployment'];
export type Database = Schemas['Database'];
export type Volume = Schemas['Volume'];
export type Run = Schemas['Run'];
export type GitWebhook = Schemas['GitWebhook'];
export type Preview = Schemas['Preview'];
type Template = Schemas['Template'];
type TemplateInstance = Schemas['TemplateInstance'];
export type SshKey = Schemas['SshKey'];
export type Registry = Schemas['Registry'];
export type Backup = Schemas['Backup'];
export type BackupSchedule = Schemas['BackupSchedule'];
export type Restore = Schemas['Restore'];
export type BackupDestination = Schemas['BackupDestination'];
export type GitCredential = Schemas['GitCredential'];
export type Instance = Schemas['Instance'];
export type Condition = Application['conditions'][number];
export type Invite = Schemas['Invite'];
export type ObjectEvent = Schemas['Events'][number];

/** A model without objects. A kind that `/ws/watch` sends has a row here: all that is typed by kind follows from it. */
function emptyMaps() {
  return {
    project: new Map<string, Project>(),
    environment: new Map<string, Environment>(),
    server: new Map<string, Server>(),
    application: new Map<string, Application>(),
    deployment: new Map<string, Deployment>(),
    database: new Map<string, Database>(),
    volume: new Map<string, Volume>(),
    run: new Map<string, Run>(),
    ssh_key: new Map<string, SshKey>(),
    git_credential: new Map<string, GitCredential>(),
    git_webhook: new Map<string, GitWebhook>(),
    preview: new Map<string, Preview>(),
    template: new Map<string, Template>(),
    template_instance: new Map<string, TemplateInstance>(),
    registry: new Map<string, Registry>(),
    backup_destination: new Map<string, BackupDestination>(),
    backup_schedule: new Map<string, BackupSchedule>(),
    backup: new Map<string, Backup>(),
    restore: new Map<string, Restore>(),
  };
}

type Maps = ReturnType<typeof emptyMaps>;
export type Kind = keyof Maps;
export type ObjectOf<K extends Kind> = Maps[K] extends Map<string, infer T> ? T : never;

/** Everything that the user may see, by kind and id. */
export type Model = { readonly [K in Kind]: ReadonlyMap<string, ObjectOf<K>> };

export const kinds = Object.keys(emptyMaps()) as readonly Kind[]; // the keys of the object

export function emptyModel(): Model {
  return emptyMaps();
}

/** The model after one object was changed, or deleted (`undefined`). */
export function withChange(model: Model, kind: Kind, id: string, object: ObjectOf<Kind> | undefined): Model {
  const objects = new Map<string, ObjectOf<Kind>>(model[kind]);
  if (object === undefined) objects.delete(id);
  else objects.set(id, object);
  return { ...model, [kind]: objects };
}

export function byName<T extends { name: string }>(objects: Iterable<T>): T[] {
  return [...objects].toSorted((a, b) => a.name.localeCompare(b.name));
}
