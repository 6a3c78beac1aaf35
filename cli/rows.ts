import { z } from 'zod';
import { bytes } from './bytes.ts';
import type { ApiObject } from './client.ts';
import type { CliKind, PlaceNames } from './objects.ts';
import { age, cell as oneLine } from './table.ts';

type Cell = (it: ApiObject, names: PlaceNames) => string;

const field =
  (name: string): Cell =>
  (it) =>
    text(it[name]);
const ready: Cell = (it) => {
  const condition = it.conditions?.find((one) => one.type === 'Ready');
  return condition?.status === 'true' ? 'yes' : (condition?.reason ?? '');
};
const instances: Cell = (it) => `${text(it['ready_replicas'])}/${text(it['replicas'])}`;
const parent: Cell = (it, names) => names.parent(it);
const environment: Cell = (it, names) => names.environment(it);

const users: Cell = (it) => String(z.array(z.string()).optional().parse(it['application_ids'])?.length ?? '');

/** The columns of each kind in a list, before age and id. */
const columns: Record<CliKind, Record<string, Cell>> = {
  projects: { name: field('name'), status: field('status') },
  environments: { name: field('name'), project: parent, status: field('status') },
  servers: { name: field('name'), status: field('status'), agent: field('agent_status') },
  applications: { name: field('name'), project: parent, environment, status: field('status'), instances, ready },
  deployments: {
    application: parent,
    number: field('number'),
    status: field('status'),
    trigger: field('trigger'),
    current: (it) => (it['is_current'] === true ? 'yes' : ''),
    commit: (it) => text(it['commit']).slice(0, 12),
  },
  databases: {
    name: field('name'),
    project: parent,
    environment,
    type: field('type'),
    version: field('version'),
    backups: field('backup_mode'),
    status: field('status'),
  },
  functions: {
    name: field('name'),
    project: parent,
    environment,
    runtime: field('runtime'),
    trigger: (it) => text(it['schedule'] ?? it['trigger_type']),
    status: field('status'),
    ready,
  },
  runs: {
    application: parent,
    command: field('name'),
    status: field('status'),
    'exit code': field('exit_code'),
  },
  volumes: {
    name: field('name'),
    project: parent,
    environment,
    status: field('status'),
    path: (it) => z.array(z.object({ mount_path: z.string() })).parse(it['bindings'])[0]?.mount_path ?? '',
  },
  'ssh-keys': {
    name: field('name'),
    type: field('type'),
    servers: (it) => String(z.array(z.string()).parse(it['server_ids']).length),
    fingerprint: field('fingerprint'),
  },
  'git-credentials': {
    name: field('name'),
    type: field('type'),
    host: field('host'),
    applications: users,
  },
  'git-webhooks': {
    name: field('name'),
    project: parent,
    provider: field('provider'),
    repository: field('repository_url'),
    refused: field('refused'),
  },
  previews: {
    name: field('name'),
    project: parent,
    branch: field('branch'),
    status: field('status'),
    expires: field('expires_at'),
    address: (it) => z.array(z.string()).parse(it['urls'])[0] ?? '',
  },
  templates: {
    name: field('name'),
    title: field('display_name'),
    tags: (it) => z.array(z.string()).parse(it['tags']).join(', '),
    instances: field('instance_count'),
  },
  'template-instances': {
    name: field('name'),
    project: parent,
    environment,
    template: field('template_name'),
    status: field('status'),
    up: (it) => `${text(it['ready_children'])}/${z.array(z.unknown()).parse(it['children']).length}`,
    ready,
  },
  syncs: {
    name: field('name'),
    project: parent,
    repository: field('repository_url'),
    branch: (it) => text(it['branch'] ?? `tags ${text(it['tag_pattern'])}`),
    status: field('status'),
    wanted: (it) => text(it['commit_wanted']).slice(0, 12),
    applied: (it) => text(it['commit_applied']).slice(0, 12),
  },
  backups: {
    of: field('name'),
    kind: field('kind'),
    project: parent,
    environment,
    status: field('status'),
    trigger: field('trigger'),
    size: (it) => bytes(z.number().nullish().parse(it['size_bytes'])),
    proven: field('proven_at'),
    expires: field('expires_at'),
  },
  'backup-schedules': {
    of: field('name'),
    project: parent,
    environment,
    when: (it) => `${text(it['cron_expression'])} ${text(it['timezone'])}`,
    status: field('status'),
    next: field('next_run_at'),
    'last success': field('last_success_at'),
  },
  restores: {
    of: field('name'),
    project: parent,
    environment,
    status: field('status'),
    trial: (it) => (it['is_drill'] === true ? 'yes' : ''),
    backup: field('backup_id'),
    finished: field('finished_at'),
  },
  'backup-destinations': {
    name: field('name'),
    provider: field('provider'),
    bucket: field('bucket'),
    status: field('status'),
    reason: (it) => it.conditions?.find(({ type, status }) => type === 'Reachable' && status !== 'true')?.reason ?? '',
  },
  registries: { name: field('name'), address: field('address'), username: field('username'), applications: users },
};

export function headOf(kind: CliKind): string[] {
  return [...Object.keys(columns[kind]), 'age', 'id'];
}

/** Typical wide cells, so that rows that come later still fit the columns. */
const usual: Readonly<Record<string, string>> = {
  name: 'an-application',
  project: 'a-project',
  environment: 'production',
  application: 'an-application',
  status: 'provisioning',
  agent: 'disconnected',
  ready: 'DeploymentFailed',
  trigger: 'rollback',
  type: 'ecdsa-nistp256',
  host: 'git.example.com',
  address: 'registry.example.com',
  fingerprint: 'SHA256:0123456789012345678901234567890123456789012',
  commit: '0123456789ab',
  age: '59m',
};

export function usualRow(kind: CliKind): string[] {
  return headOf(kind).map((name) => usual[name] ?? name);
}

/** The cells of an object. Without its age, they are equal while nothing that is shown of it changes. */
export function rowOf(kind: CliKind, it: ApiObject, names: PlaceNames, now?: Date): string[] {
  const cells = Object.values(columns[kind]).map((cell) => cell(it, names));
  return [...cells.map(oneLine), ...(now === undefined ? [] : [age(it.created_at, now)]), it.id];
}

function text(value: unknown): string {
  return value === undefined || value === null
    ? ''
    : typeof value === 'object'
      ? JSON.stringify(value)
      : `${value as string | number | boolean}`; // what JSON can contain
}
