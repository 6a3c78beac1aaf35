import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { WireService, WireVolume } from '../../../agent-protocol/assignment.ts';
import type { TaskType } from '../../../agent-protocol/task-types.ts';
import { isTaskType, taskTypes } from '../../../agent-protocol/task-types.ts';
import { defaultContainerLimits } from '../../../agent/runtime/docker/docker-runtime.ts';
import { creation } from '../../../agent/runtime/docker/creation.ts';
import { containerSpec } from '../../../agent/service/container-spec.ts';
import { wireItem } from '../../harness/wire-items.ts';

/** The part of JSON Schema that describes workloads. A new form fails the test until it is walked too. */
interface Schema {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | false;
  prefixItems?: Schema[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  minimum?: number;
}

/** Two values of a schema that differ in one leaf. */
interface Change {
  leaf: string;
  from: unknown;
  to: unknown;
}

/** A value with every property, each list with one element, and the first option of each choice. */
function sample(schema: Schema): unknown {
  const { properties, prefixItems, items, additionalProperties } = schema;
  const options = schema.anyOf ?? schema.oneOf;
  if (options?.[0] !== undefined) return sample(options[0]);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (properties !== undefined)
    return Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, sample(one)]));
  if (typeof additionalProperties === 'object') return { key: sample(additionalProperties) };
  if (schema.type === 'array') return (prefixItems ?? (items === undefined ? [] : [items])).map(sample);
  return leaf(schema, 1);
}

function leaf({ type, minimum = 0 }: Schema, index: number): unknown {
  switch (type) {
    case 'string':
      return `/aa${index}`; // an absolute path, and base64
    case 'integer':
      return Math.max(0, minimum) + 100 + index;
    case 'boolean':
      return index === 1;
    default:
      throw new Error(`No values are made for the type ${type}`);
  }
}

/** Every leaf of a schema, with a change of it alone. Discriminators are no leaves. */
function changesOf(schema: Schema, path = ''): Change[] {
  const { properties, prefixItems, items, additionalProperties } = schema;
  const options = schema.anyOf ?? schema.oneOf;
  if (options !== undefined) return options.flatMap((option) => changesOf(option, `${path}${nameOf(option)}`));
  if (schema.const !== undefined) return [];
  if (schema.enum !== undefined) return [{ leaf: path, from: schema.enum[0], to: schema.enum[1] }];
  if (properties !== undefined)
    return Object.entries(properties).flatMap(([name, one]) =>
      changesOf(one, path === '' ? name : `${path}.${name}`).map((change) =>
        within(change, (value) => ({ ...(sample(schema) as object), [name]: value })),
      ),
    );
  if (typeof additionalProperties === 'object')
    return changesOf(additionalProperties, `${path}.*`).map((change) => within(change, (value) => ({ key: value })));
  if (schema.type !== 'array') return [{ leaf: path, from: leaf(schema, 1), to: leaf(schema, 2) }];
  const first = (prefixItems ?? []).map(sample);
  const ofFirst = (prefixItems ?? []).flatMap((one, index) =>
    changesOf(one, `${path}[${index}]`).map((change) => within(change, (value) => first.with(index, value))),
  );
  const further = items === undefined ? [] : changesOf(items, `${path}[]`);
  return [...ofFirst, ...further.map((change) => within(change, (value) => [...first, value]))];
}

function nameOf({ properties }: Schema): string {
  const type = properties?.['type']?.const;
  return typeof type === 'string' ? `<${type}>` : '';
}

function within({ leaf: name, from, to }: Change, put: (value: unknown) => unknown): Change {
  return { leaf: name, from: put(from), to: put(to) };
}

const leavesOf = (schema: z.ZodType): Change[] => changesOf(z.toJSONSchema(schema) as Schema);

/** The request that makes the container of a service. The hash of the settings is the same for all: it shows nothing. */
function requestOf(value: unknown): string {
  const spec = WireService.parse(value);
  const it = { server: 's', name: 'n', image: 'sha256:web', program: [], storageBytes: 1, files: [] };
  return JSON.stringify(creation(containerSpec({ ...wireItem('i'), spec }, it), defaultContainerLimits));
}

/**
 * Settings that are not in the request that makes a container, each with the file that acts upon it. The words of the
 * setting are in that file.
 */
const actors = {
  slot: 'controllers/rollout/slots.ts',
  'ingress.http_port': 'agent/ingress/config.ts',
  'ingress.https_port': 'agent/ingress/config.ts',
  'ingress.acme.directory': 'agent/ingress/config.ts',
  'ingress.acme.email': 'agent/ingress/config.ts',
  'ingress.acme.ca': 'agent/ingress/server-ingress.ts',
  'ingress.trusted_proxies[]': 'agent/ingress/config.ts',
  image: 'agent/service/service-steps.ts',
  image_digest: 'agent/service/drift.ts',
  config: 'agent/desired/desired.ts',
  'configuration.files.*': 'agent/service/instance-files.ts',
  'ports[].name': 'agent-protocol/earlier-service.ts',
  'ports[].port': 'agent/service/service-ports.ts',
  'ports[].publish': 'agent/service/service-ports.ts',
  'files[].path': 'agent/service/instance-files.ts',
  'files[].mode': 'agent/service/instance-files.ts',
  'files[].uid': 'agent/service/instance-files.ts',
  'files[].gid': 'agent/service/instance-files.ts',
  'probe<http>.port': 'agent/service/readiness-subject.ts',
  'probe<http>.path': 'agent/service/readiness-subject.ts',
  'probe<http>.host': 'agent/service/readiness-subject.ts',
  'probe<http>.status': 'agent/service/readiness-subject.ts',
  'probe<tcp>.port': 'agent/service/readiness-subject.ts',
  'probe<command>.command[]': 'agent/service/readiness-subject.ts',
  ...Object.fromEntries(
    ['http', 'tcp', 'command', 'image'].flatMap((type) => [
      [`probe<${type}>.timeout_seconds`, 'agent/service/readiness-subject.ts'],
      ...['interval_seconds', 'failures', 'successes', 'start_seconds'].map((name) => [
        `probe<${type}>.${name}`,
        'agent/service/readiness.ts',
      ]),
    ]),
  ),
  restart_policy: 'agent/service/plan.ts',
  image_check: 'agent/service/readiness-subject.ts',
  min_healthy_seconds: 'agent/service/readiness-subject.ts',
  drain_seconds: 'agent/service/plan.ts',
} as Readonly<Record<string, string>>;

const actorsOfTasks: Readonly<Record<TaskType, Readonly<Record<string, string>>>> = {
  build: {
    repository_url: 'agent/tasks/build.ts',
    branch: 'agent/tasks/build.ts',
    commit: 'agent/tasks/build.ts',
    dockerfile_path: 'agent/tasks/build.ts',
    build_context: 'agent/tasks/build.ts',
    dockerfile_text: 'agent/tasks/build.ts',
    target: 'agent/tasks/prepared-build.ts',
    'build_args.*': 'agent/tasks/build.ts',
    'build_secrets.*': 'agent/tasks/build-by-kit.ts',
    'git_credential<token>.host': 'agent/tasks/git-access.ts',
    'git_credential<token>.username': 'agent/tasks/git-access.ts',
    'git_credential<token>.token': 'agent/tasks/git-access.ts',
    'git_credential<token>.ca_certificate': 'agent/tasks/git-access.ts',
    'git_credential<ssh>.host': 'agent/tasks/git-access.ts',
    'git_credential<ssh>.private_key': 'agent/tasks/git-access.ts',
    'git_credential<ssh>.host_keys[]': 'agent/tasks/git-access.ts',
    submodules: 'agent/tasks/build.ts',
    'generate.port': 'agent/tasks/generated-dockerfile.ts',
    'generate.has_command': 'agent/tasks/generated-dockerfile.ts',
    'generate.app_type': 'agent/tasks/generated-dockerfile.ts',
    image: 'agent/tasks/build.ts',
    deadline_seconds: 'agent/tasks/task-worker.ts',
    attempt: 'agent/tasks/task-worker.ts',
  },
  run: {
    application_id: 'agent/tasks/run.ts',
    'command[]': 'agent/tasks/run.ts',
    image: 'agent/tasks/run.ts',
    image_digest: 'agent/tasks/run.ts',
    'env.*': 'agent/tasks/run.ts',
    'references.*': 'controllers/gateway/projection.ts',
    'references.*.before': 'controllers/gateway/projection.ts',
    'references.*.secret': 'controllers/gateway/projection.ts',
    'references.*.after': 'controllers/gateway/projection.ts',
    'references.*.isInUrl': 'controllers/gateway/projection.ts',
    network: 'agent/tasks/run.ts',
    ...Object.fromEntries(
      ['mounts[].volume', 'mounts[].path', 'mounts[].read_only', 'limits.memory_bytes', 'limits.nano_cpus'].map(
        (name) => [name, 'agent/tasks/run.ts'],
      ),
    ),
    deadline_seconds: 'agent/tasks/task-worker.ts',
    attempt: 'agent/tasks/task-worker.ts',
  },
  restore: {
    engine: 'agent/tasks/restore.ts',
    instance: 'agent/tasks/restore.ts',
    volume: 'agent/tasks/restore.ts',
    size_bytes: 'agent/tasks/restore.ts',
    dump_bytes: 'agent/tasks/restore.ts',
    checksum_sha256: 'agent/tasks/restore.ts',
    'log.version': 'agent/tasks/physical.ts',
    'log.first_segment': 'agent/tasks/physical.ts',
    'log.last_segment': 'agent/tasks/physical.ts',
    'log.system_identifier': 'agent/tasks/physical.ts',
    'source.by': 'agent/tasks/import.ts',
    'source.name': 'agent/tasks/import.ts',
    'source.database': 'agent/tasks/import.ts',
    ca: 'agent/tasks/restore.ts',
    deadline_seconds: 'agent/tasks/task-worker.ts',
    attempt: 'agent/tasks/task-worker.ts',
  },
  recovery: {
    engine: 'agent/tasks/recovery.ts',
    instance: 'agent/tasks/recovery.ts',
    volume: 'agent/tasks/recovery.ts',
    target_time: 'agent/tasks/recovery.ts',
    deadline_seconds: 'agent/tasks/task-worker.ts',
    attempt: 'agent/tasks/task-worker.ts',
  },
  backup: {
    engine: 'agent/tasks/backup.ts',
    method: 'agent/tasks/backup.ts',
    instance: 'agent/tasks/backup.ts',
    volume: 'agent/tasks/backup.ts',
    part_bytes: 'agent/tasks/backup.ts',
    ca: 'agent/tasks/backup.ts',
    deadline_seconds: 'agent/tasks/task-worker.ts',
    attempt: 'agent/tasks/task-worker.ts',
  },
};

/** The last name of a leaf: `uid` of `files[].uid`, `build_args` of `build_args.*`. */
const wordOf = (name: string): string => /(\w+)(?:\[\]|\.\*)*$/.exec(name)?.[1] ?? name;

async function missingWords(table: Readonly<Record<string, string>>): Promise<string[]> {
  const missing: string[] = [];
  for (const [name, file] of Object.entries(table)) {
    const text = await readFile(join(import.meta.dirname, '../../..', file), 'utf8');
    if (!new RegExp(`\\b${wordOf(name)}\\b`).test(text)) missing.push(`${file} does not read ${name}`);
  }
  return missing;
}

describe('every setting of a service', () => {
  const changes = leavesOf(WireService);
  const isRequested = ({ from, to }: Change): boolean => requestOf(from) !== requestOf(to);

  test('is in the request that makes its container, or is acted upon by a file that is listed', () => {
    expect(changes.length).toBeGreaterThan(60);
    const ignored = changes.filter((change) => !isRequested(change) && !(change.leaf in actors));
    expect(ignored.map(({ leaf: name }) => `The agent does not act upon ${name}`)).toEqual([]);
  });

  test('is listed only if it exists and is not in that request', async () => {
    const outside = new Set(changes.filter((change) => !isRequested(change)).map(({ leaf: name }) => name));
    expect(Object.keys(actors).filter((name) => !outside.has(name))).toEqual([]);
    expect(await missingWords(actors)).toEqual([]);
  });
});

test.each(Object.keys(taskTypes).filter(isTaskType))(
  'every setting of the task type %s is acted upon by a file that is listed',
  async (type) => {
    const settings = leavesOf(taskTypes[type].spec).map(({ leaf: name }) => name);
    expect(settings.toSorted()).toEqual(Object.keys(actorsOfTasks[type]).toSorted());
    expect(await missingWords(actorsOfTasks[type])).toEqual([]);
  },
);

test('a volume has no setting but its name', () => {
  expect(leavesOf(WireVolume).map(({ leaf: name }) => name)).toEqual(['volume']);
});
