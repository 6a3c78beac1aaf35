/** Objects of the API with the fields that the console reads. */

export interface Condition {
  type: string;
  status: 'true' | 'false' | 'unknown';
  reason: string;
  message: string;
  last_transition_at: string;
}

interface Common {
  id: string;
  generation: number;
  observed_generation: number;
  conditions?: Condition[];
  created_at: string;
  updated_at: string;
}

export interface Project extends Common {
  name: string;
  display_name: string | null;
  status: string;
}

export interface Environment extends Common {
  project_id: string;
  name: string;
  status: string;
}

/** Users of projects see only name and status of a server. */
export interface Server extends Pick<Common, 'id'>, Partial<Omit<Common, 'id'>> {
  name: string;
  status: string;
  agent_status: string;
  agent_version?: string | null;
  runtime_version?: string | null;
}

export type ApplicationStatus = 'running' | 'stopped' | 'deploying' | 'failed' | 'error' | 'deleting';

export interface Application extends Common {
  project_id: string;
  environment_id: string;
  server_id: string;
  name: string;
  status: ApplicationStatus;
  source_type: string;
  repository_url: string | null;
  branch: string | null;
  image_url: string | null;
  replicas: number;
  ready_replicas: number;
  exposed_port: number | null;
  current_commit: string | null;
  current_deployment_id: string | null;
  deployment_id: string | null;
}

export interface Deployment extends Common {
  application_id: string;
  number: number;
  status: string;
  trigger: string;
  commit: string | null;
  commit_message: string | null;
  is_current: boolean;
  duration_ms: number | null;
  error: { code: string; message: string } | null;
}

export interface ObjectEvent {
  type: 'normal' | 'warning';
  reason: string;
  message: string;
  count: number;
  last_at: string;
}

export interface Instance {
  id: string;
  replica: number;
  status: string;
  ready: boolean;
  restarts: number;
  started_at: string | null;
}

/** Everything that the user may see, by kind and id. */
export interface Model {
  project: ReadonlyMap<string, Project>;
  environment: ReadonlyMap<string, Environment>;
  server: ReadonlyMap<string, Server>;
  application: ReadonlyMap<string, Application>;
  deployment: ReadonlyMap<string, Deployment>;
}

export type Kind = keyof Model;
export type ObjectOf<K extends Kind> = Model[K] extends ReadonlyMap<string, infer T> ? T : never;

export const kinds: readonly Kind[] = ['project', 'environment', 'server', 'application', 'deployment'];

export function emptyModel(): Model {
  return {
    project: new Map(),
    environment: new Map(),
    server: new Map(),
    application: new Map(),
    deployment: new Map(),
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
