import type { components } from './api-types.d.ts';

type Schemas = components['schemas'];

export type Project = Schemas['Project'];
export type Environment = Schemas['Environment'];
/** Users of projects see only the summary of a server. */
export type Server = Schemas['Server'] | Schemas['ServerSummary'];
export type Application = Schemas['Application'];
export type Deployment = Schemas['Deployment'];
export type Volume = Schemas['Volume'];
export type Instance = Schemas['Instance'];
export type Condition = Application['conditions'][number];
export type Invite = Schemas['Invite'];
export type ObjectEvent = Schemas['Events'][number];

/** Everything that the user may see, by kind and id. */
export interface Model {
  project: ReadonlyMap<string, Project>;
  environment: ReadonlyMap<string, Environment>;
  server: ReadonlyMap<string, Server>;
  application: ReadonlyMap<string, Application>;
  deployment: ReadonlyMap<string, Deployment>;
  volume: ReadonlyMap<string, Volume>;
}

export type Kind = keyof Model;
export type ObjectOf<K extends Kind> = Model[K] extends ReadonlyMap<string, infer T> ? T : never;

export const kinds: readonly Kind[] = ['project', 'environment', 'server', 'application', 'deployment', 'volume'];

export function emptyModel(): Model {
  return {
    project: new Map(),
    environment: new Map(),
    server: new Map(),
    application: new Map(),
    deployment: new Map(),
    volume: new Map(),
  };
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
