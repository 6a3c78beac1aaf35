import { z } from 'zod';
import { changeAsRead } from '../change-as-read.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { placeOf } from '../place.ts';
import { secretValues } from '../secrets.ts';
import { waiting } from '../settled.ts';
import { table } from '../table.ts';
import { deleteObject } from './delete.ts';
import { get } from './get.ts';
import { flagOf } from './set.ts';

export interface SyncOptions {
  repository?: string;
  branch?: string;
  /** Followed in place of a branch. */
  tagPattern?: string;
  path?: string;
  gitCredential?: string;
  environment?: string;
  interval?: number;
  /** `false`: what is not declared any more stays. */
  prune?: boolean;
  drift?: string;
  force?: string[];
  /** Whose steps are forced; absent: of whatever commit is wanted. */
  commit?: string;
  /** Rolled back to; absent: the one that was applied before. */
  to?: string;
  /** What stands in the files for `${vars.NAME}`. */
  set?: Record<string, string>;
  /** Names of those whose values are asked for, and not shown. */
  secret?: string[];
  /** Names of variables and secrets that are removed. */
  unset?: string[];
  on?: string;
  yes?: boolean;
}
interface Options extends SyncOptions {
  project?: string;
  wait?: boolean;
}

const actions = ['list', 'create', 'show', 'set', 'run', 'rollback', 'release', 'pause', 'resume', 'delete'] as const;
type Action = (typeof actions)[number];

/** What each action takes beside the project, the wait and a confirmation. */
const optionsOf: Readonly<Record<Exclude<Action, 'list'>, readonly (keyof SyncOptions)[]>> = {
  create: [
    'repository',
    'branch',
    'tagPattern',
    'path',
    'gitCredential',
    'environment',
    'interval',
    'prune',
    'drift',
    'set',
    'secret',
    'on',
  ],
  show: [],
  set: ['branch', 'tagPattern', 'set', 'secret', 'unset'],
  run: ['force', 'commit'],
  rollback: ['to'],
  release: [],
  pause: [],
  resume: [],
  delete: [],
};

/** @throws Error for an option that the action would leave out of account */
function requireOwnOptions(action: Exclude<Action, 'list'>, options: Options): void {
  // commander sets it unless --no-prune is given
  const { prune, ...others } = options;
  const given: SyncOptions = prune === false ? options : others;
  const foreign = [...new Set(Object.values(optionsOf).flat())].find(
    (one) => given[one] !== undefined && !optionsOf[action].includes(one),
  );
  if (foreign === undefined) return;
  const own = optionsOf[action].map(nameOf).join(', ');
  throw new Error(`${nameOf(foreign)} is not an option of sync ${action}: it has ${own === '' ? 'none' : own}`);
}

function nameOf(option: keyof SyncOptions): string {
  return option === 'prune' ? '--no-prune' : flagOf(option);
}

const Shown = z.object({
  name: z.string(),
  status: z.string(),
  commit_wanted: z.string().nullable(),
  tag_wanted: z.string().nullish(),
  commit_applied: z.string().nullable(),
  tag_applied: z.string().nullish(),
  pinned_commit: z.string().nullish(),
  message: z.string().nullable(),
  differs: z.array(z.string()),
  needs_force: z.array(z.string()),
  generation: z.number(),
  observed_generation: z.number().nullish(),
});

const Runs = z.array(
  z.object({
    commit: z.string(),
    commit_message: z.string().nullable(),
    tag: z.string().nullish(),
    at: z.string(),
    outcome: z.string(),
    message: z.string().nullable(),
    changes: z.int(),
  }),
);

/** Lists syncs, or makes, shows, changes, runs, rolls back, releases, pauses, resumes or deletes one. @throws Error for another action, or without a name */
export async function sync(
  client: Client,
  word: string,
  name: string | undefined,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  const action = actions.find((one) => one === word);
  if (action === undefined)
    throw new Error(
      `Cannot ${word} a sync: list, create, show, set, run, rollback, release, pause, resume or delete it`,
    );
  if (action === 'list') {
    await get(client, 'syncs', name, options.project === undefined ? {} : { project: options.project }, signal);
    return;
  }
  if (name === undefined) throw new Error(`Name the sync to ${action}: setpoint sync ${action} NAME`);
  requireOwnOptions(action, options);
  await act(client, action, name, options);
}

async function act(client: Client, action: Exclude<Action, 'list'>, name: string, options: Options): Promise<void> {
  const { wait, force, project } = options;
  if (action === 'delete') {
    const { force: _force, ...deleting } = options;
    return deleteObject(client, 'sync', name, deleting);
  }
  if (action === 'create') return create(client, name, options);
  const it = await findObject(client, 'syncs', name, project);
  const path = pathOf('syncs', it);
  const query = wait === false ? '' : `?${waiting}`;
  switch (action) {
    case 'show': {
      print(it);
      const runs = Runs.parse(await client.request('GET', `${path}/runs`));
      if (runs.length > 0) console.log(table(['commit', 'at', 'outcome', 'changes', 'message'], runs.map(lineOf)));
      return;
    }
    case 'set': {
      const secrets = await secretValues(options.secret);
      const bodyOf = (read: ApiObject): object => ({
        ...followedOf(options),
        ...changeOf(Values.parse(read), options, secrets),
      });
      return printEnd(await changeAsRead(client, { path, query }, it, bodyOf), told, wait);
    }
    case 'run':
      return printEnd(
        await client.request('POST', `${path}/sync${query}`, {
          ...(force !== undefined && { force }),
          ...(options.commit !== undefined && { commit: options.commit }),
        }),
        applied,
        wait,
      );
    case 'rollback':
      return printEnd(
        await client.request(
          'POST',
          `${path}/rollback${query}`,
          options.to === undefined ? {} : { commit: options.to },
        ),
        applied,
        wait,
      );
    case 'release':
      return printEnd(await client.request('PUT', `${path}${query}`, { pinned_commit: null }), told, wait);
    case 'pause':
      return print(await client.request('PUT', path, { is_paused: true }));
    case 'resume':
      return printEnd(await client.request('PUT', `${path}${query}`, { is_paused: false }), told, wait);
  }
}

/** What it is to follow. The control plane refuses both. */
function followedOf({ branch, tagPattern }: { branch?: string | undefined; tagPattern?: string | undefined }): {
  branch?: string;
  tag_pattern?: string;
} {
  return { ...(branch !== undefined && { branch }), ...(tagPattern !== undefined && { tag_pattern: tagPattern }) };
}

async function create(client: Client, name: string, options: Options): Promise<void> {
  const { project, repository, path, gitCredential, environment, interval, prune, drift } = options;
  const place = await placeOf(client, 'sync', options);
  if (repository === undefined) throw new Error('A sync reads a repository: name it by --repository URL');
  const idOf = async (kind: 'git-credentials' | 'environments', of: string | undefined) =>
    of === undefined ? undefined : (await findObject(client, kind, of, project)).id;
  const [credential, usual] = [await idOf('git-credentials', gitCredential), await idOf('environments', environment)];
  const made = await client.request('POST', `/api/v1/syncs${options.wait === false ? '' : `?${waiting}`}`, {
    ...place,
    name,
    repository_url: repository,
    ...followedOf({ ...options, branch: options.branch ?? (options.tagPattern === undefined ? 'main' : undefined) }),
    ...(path !== undefined && { path }),
    ...(credential !== undefined && { git_credential_id: credential }),
    ...(usual !== undefined && { environment_id: usual }),
    ...(interval !== undefined && { interval_seconds: interval }),
    ...(prune === false && { prune }),
    ...(drift !== undefined && { drift }),
    ...(options.set !== undefined && { variables: options.set }),
    ...(options.secret !== undefined && { secrets: await secretValues(options.secret) }),
  });
  printEnd(made, applied, options.wait);
}

const Values = z.looseObject({
  name: z.string(),
  variables: z.record(z.string(), z.string()),
  secret_names: z.array(z.string()),
});

/** The variables of a sync as they are to be, if they change, and the secrets that do; null removes one. @throws Error */
function changeOf(
  { name: sync, variables, secret_names: names }: z.output<typeof Values>,
  { set, unset = [] }: Options,
  given: Readonly<Record<string, string>>,
): { variables?: Record<string, string>; secrets?: Record<string, string | null> } {
  const unknown = unset.find((name) => !Object.hasOwn(variables, name) && !names.includes(name));
  if (unknown !== undefined) throw new Error(`Sync ${sync} has neither a variable nor a secret ${unknown}`);
  const kept = Object.entries(variables).filter(([name]) => !unset.includes(name));
  const removed = unset.filter((name) => names.includes(name)).map((name): [string, null] => [name, null]);
  const secrets = { ...Object.fromEntries(removed), ...given };
  return {
    ...((set !== undefined || unset.length > 0) && { variables: { ...Object.fromEntries(kept), ...set } }),
    ...(Object.keys(secrets).length > 0 && { secrets }),
  };
}

function lineOf({
  commit,
  tag,
  commit_message,
  at,
  outcome,
  changes,
  message,
}: z.output<typeof Runs>[number]): string[] {
  return [named(commit, tag), at, outcome, String(changes), message ?? commit_message ?? ''];
}

/** A commit with the tag by which it was found. */
function named(commit: string, tag: string | null | undefined): string {
  return typeof tag === 'string' ? `${tag} (${short(commit)})` : short(commit);
}

function short(commit: string): string {
  return commit.slice(0, 12);
}

/** What is waited for where a commit is to be applied, and where the settings of a sync change. */
const applied = ['in_sync'];
const told = ['in_sync', 'drifted', 'paused'];

/** Prints how a sync is. @throws Error if it was waited for, and is not in one of the wanted states by what it did now */
function printEnd(answer: unknown, wanted: readonly string[], wait: boolean | undefined): void {
  print(answer);
  if (wait === false) return;
  const { name, status, message, generation, observed_generation: seen } = Shown.parse(answer);
  const more = `\`setpoint sync show ${name}\` shows how it goes on`;
  if (status !== 'paused' && (seen ?? 0) < generation) throw new Error(`Sync ${name} is not taken up yet: ${more}`);
  // in sync with a message: it could not look at its repository now
  if (!wanted.includes(status) || (status === 'in_sync' && message !== null))
    throw new Error(`Sync ${name} is ${status.replaceAll('_', ' ')}${message === null ? '' : `: ${message}`}: ${more}`);
}

function print(answer: unknown): void {
  const it = Shown.parse(answer);
  const { name, status, commit_wanted, commit_applied, pinned_commit, message, needs_force } = it;
  const wanted = commit_wanted === null ? 'none is known yet' : named(commit_wanted, it.tag_wanted);
  const applied = commit_applied === null ? 'none' : named(commit_applied, it.tag_applied);
  console.log(`sync ${name}: ${status.replaceAll('_', ' ')}; commit wanted: ${wanted}, applied: ${applied}`);
  if (typeof pinned_commit === 'string')
    console.log(`It is pinned to ${short(pinned_commit)}: setpoint sync release ${name} follows the repository again`);
  if (message !== null) console.log(message);
  const of = commit_wanted === null ? '' : ` --commit ${short(commit_wanted)}`;
  if (needs_force.length > 0) console.log(`  setpoint sync run ${name}${of} --force ${needs_force.join(' ')}`);
}
