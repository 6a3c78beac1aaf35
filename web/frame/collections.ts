import { signal } from '@preact/signals';
import type { Signal } from '@preact/signals';
import { list, messageOf } from '../api.ts';
import type { Login } from '../api.ts';
import type { Kind, ObjectOf } from '../model.ts';
import { pauseAfter } from './pause-after.ts';
import { keptObjects } from './store.ts';
import type { ListAnswer, Store } from './store.ts';

/** A list that pages show: all objects of a kind, or those of one parent. */
export interface Collection<K extends Kind = Kind> {
  /** Distinguishes it from all others. */
  readonly name: string;
  read(login: Login): Promise<ListAnswer<K>>;
}

export type Reading = { state: 'reading' } | { state: 'ready' } | { state: 'failed'; message: string };

/** All objects of a kind. */
export function whole<K extends Kind>(kind: K, read: (login: Login) => Promise<ObjectOf<K>[]>): Collection<K> {
  return { name: kind, read: async (login) => ({ kind, objects: await read(login), covers: () => true }) };
}

export const allProjects = whole('project', (login) => list(login, '/api/v1/projects', keptObjects));
export const allServers = whole('server', (login) => list(login, '/api/v1/servers', keptObjects));
export const allApplications = whole('application', (login) => list(login, '/api/v1/applications', keptObjects));
export const allDatabases = whole('database', (login) => list(login, '/api/v1/databases', keptObjects));
export const allFunctions = whole('function', (login) => list(login, '/api/v1/functions', keptObjects));
export const allVolumes = whole('volume', (login) => list(login, '/api/v1/volumes', keptObjects));
export const allBackups = whole('backup', (login) => list(login, '/api/v1/backups', keptObjects));
export const allBackupSchedules = whole('backup_schedule', (login) =>
  list(login, '/api/v1/backup-schedules', keptObjects),
);
export const allRestores = whole('restore', (login) => list(login, '/api/v1/restores', keptObjects));
export const allTemplates = whole('template', (login) => list(login, '/api/v1/templates', keptObjects));
export const allTemplateInstances = whole('template_instance', (login) =>
  list(login, '/api/v1/template-instances', keptObjects),
);

export const allSyncs = whole('sync', (login) => list(login, '/api/v1/syncs', keptObjects));

export function environmentsOf(projectId: string): Collection<'environment'> {
  return {
    name: `environment of ${projectId}`,
    read: async (login) => ({
      kind: 'environment',
      objects: await list(login, '/api/v1/projects/{projectId}/environments', keptObjects, { path: { projectId } }),
      covers: (it) => it.project_id === projectId,
    }),
  };
}

export function databasesOf(projectId: string): Collection<'database'> {
  return {
    name: `database of ${projectId}`,
    read: async (login) => ({
      kind: 'database',
      objects: await list(login, '/api/v1/databases', keptObjects, { query: { projectId } }),
      covers: (it) => it.project_id === projectId,
    }),
  };
}

export function functionsOf(projectId: string): Collection<'function'> {
  return {
    name: `function of ${projectId}`,
    read: async (login) => ({
      kind: 'function',
      objects: await list(login, '/api/v1/functions', keptObjects, { query: { projectId } }),
      covers: (it) => it.project_id === projectId,
    }),
  };
}

export function volumesOf(projectId: string): Collection<'volume'> {
  return {
    name: `volume of ${projectId}`,
    read: async (login) => ({
      kind: 'volume',
      objects: await list(login, '/api/v1/volumes', keptObjects, { query: { projectId } }),
      covers: (it) => it.project_id === projectId,
    }),
  };
}

export function gitWebhooksOf(projectId: string): Collection<'git_webhook'> {
  return {
    name: `git_webhook of ${projectId}`,
    read: async (login) => ({
      kind: 'git_webhook',
      objects: await list(login, '/api/v1/webhooks/git', keptObjects, { query: { projectId } }),
      covers: (it) => it.project_id === projectId,
    }),
  };
}

export const newestDeployments = 20;

/** The newest deployments of an application. */
export function deploymentsOf(appId: string): Collection<'deployment'> {
  return {
    name: `deployment of ${appId}`,
    read: async (login) => ({
      kind: 'deployment',
      objects: await list(login, '/api/v1/applications/{appId}/deployments', newestDeployments, {
        path: { appId },
        query: { sort: '-number' },
      }),
      covers: (it) => it.application_id === appId,
    }),
  };
}

interface Known {
  readonly collection: Collection;
  readonly reading: Signal<Reading>;
  /** Reads that failed since it was last read. */
  failures: number;
  timer?: ReturnType<typeof setTimeout>;
}

/**
 * Lists that are read again after a gap; one that was asked for longer ago is read when it is asked for again. A page that
 * asks for more of them would read them without end.
 */
const keptLists = 50;

/**
 * The lists that pages have asked for. Each is read once it is asked for and the stream of changes is open, and again
 * after changes were missed.
 */
export class Collections {
  readonly #login: Login;
  readonly #store: Store;
  readonly #readings = new Map<string, Known>();
  #isOpen = false;

  constructor(login: Login, store: Store) {
    this.#login = login;
    this.#store = store;
  }

  /** Whether a list has been read; the first question begins to read it. */
  reading(collection: Collection): Reading {
    let known = this.#readings.get(collection.name);
    if (known === undefined) {
      known = { collection, reading: signal<Reading>({ state: 'reading' }), failures: 0 };
      const [oldest] = this.#readings.keys();
      if (this.#readings.size >= keptLists && oldest !== undefined) this.#readings.delete(oldest);
      this.#readings.set(collection.name, known);
      if (this.#isOpen) this.#read(known);
    } else {
      // the first one is that which was asked for longest ago
      this.#readings.delete(collection.name);
      this.#readings.set(collection.name, known);
    }
    return known.reading.value;
  }

  /** Reads all lists again, as changes may have been missed. */
  readAll(): void {
    this.#isOpen = true;
    for (const known of this.#readings.values()) this.#read(known);
  }

  /** Reads a list again whose reading has failed. */
  retry(collection: Collection): void {
    const known = this.#readings.get(collection.name);
    if (known !== undefined) this.#read(known);
  }

  #read(known: Known): void {
    const { collection, reading } = known;
    clearTimeout(known.timer);
    this.#store
      .take(() => collection.read(this.#login))
      .then(
        () => {
          known.failures = 0;
          reading.value = { state: 'ready' };
        },
        (error: unknown) => {
          // what was read before is still shown, without the changes that were missed
          if (reading.peek().state !== 'ready') reading.value = { state: 'failed', message: messageOf(error) };
          this.#readLater(known, error);
        },
      );
  }

  /** Reads a list again after a pause, unless it was refused or is not kept any more. */
  #readLater(known: Known, error: unknown): void {
    const pauseMs = pauseAfter(error, known.failures);
    known.failures += 1;
    if (pauseMs === undefined) return;
    clearTimeout(known.timer);
    known.timer = setTimeout(() => {
      if (this.#readings.get(known.collection.name) === known) this.#read(known);
    }, pauseMs);
  }
}
