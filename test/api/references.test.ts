import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { endpoints } from '../../api/routes/endpoints.ts';
import { routeName } from '../../api/endpoint/endpoint.ts';
import type { AnyEndpoint } from '../../api/endpoint/endpoint.ts';
import { permissions } from '../../api/rights/permissions.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { parseKey } from '../../store/keys.ts';
import { openRepository } from '../../store/repo.ts';
import { createTenant } from '../../store/tenants.ts';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { CountingStore } from '../harness/counting-store.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';
import { databaseOf, formerVolumeOf, exampleOf, places } from './examples.ts';

/** SEC-28: an id in a body or a query points at what its sender may use, and at nothing else. */
let world: ApiWorld;
let store: CountingStore;
const unlimited = { perMinute: 0, burst: 1 };

beforeAll(async () => {
  world = await startApi({
    config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited },
    wrap: (inner) => (store = new CountingStore(inner)),
  });
  await createTenant(world.store, 'elsewhere', world.clock);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** With what a body can name a git credential. */
const gitSource = {
  source_type: 'git',
  repository_url: 'https://git.example.test/web.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  image_url: null,
};

/** What a field points at; `with`: what a body that has it needs besides. A field of an id that is not here fails: say here what it points at. */
const kindOf: Readonly<Record<string, { kind: KindName; of: (stage: Stage) => string; with?: object }>> = {
  project_id: { kind: 'project', of: ({ project }) => project },
  projectId: { kind: 'project', of: ({ project }) => project },
  environment_id: { kind: 'environment', of: ({ environment }) => environment },
  environmentId: { kind: 'environment', of: ({ environment }) => environment },
  server_id: { kind: 'server', of: ({ server }) => server },
  serverId: { kind: 'server', of: ({ server }) => server },
  default_server_id: { kind: 'server', of: ({ server }) => server },
  user_id: { kind: 'user', of: ({ guest }) => guest.id },
  instance_id: {
    kind: 'assignment',
    of: ({ world: { mirror }, tenant, application }) =>
      mirror.tenant(tenant).by('assignment', 'workload', application)[0]?.meta.id ?? randomUUID(),
  },
  deployment_id: { kind: 'deployment', of: ({ deployments }) => deployments.current },
  backup_id: { kind: 'backup', of: places.backup },
  template_id: { kind: 'template', of: places.template },
  database_id: { kind: 'database', of: databaseOf },
  volume_id: { kind: 'volume', of: places.volume, with: { database_id: null } },
  application_id: { kind: 'application', of: ({ application }) => application, with: { database_id: null } },
  target_database_id: { kind: 'database', of: databaseOf },
  backup_destination_id: {
    kind: 'backup_destination',
    of: ({ backupDestination }) => backupDestination,
    with: { backup_mode: 'pitr' },
  },
  destination_id: { kind: 'backup_destination', of: ({ backupDestination }) => backupDestination },
  workload_id: { kind: 'application', of: ({ application }) => application },
  new_owner_id: { kind: 'user', of: ({ viewer }) => viewer.id },
  ssh_key_id: { kind: 'ssh_key', of: ({ sshKey }) => sshKey },
  sshKeyId: { kind: 'ssh_key', of: ({ sshKey }) => sshKey },
  registry_id: {
    kind: 'registry',
    of: ({ registry }) => registry,
    with: gitSource,
  },
  git_credential_id: { kind: 'git_credential', of: ({ gitCredential }) => gitCredential, with: gitSource },
};
const ofVolumeSchedule = {
  kind: 'backup_destination' as const,
  of: ({ backupDestination }: Stage) => backupDestination,
  with: { backup_enabled: true },
};
/** Fields that point at something else in one route. */
const kindAt: Readonly<Record<string, (typeof kindOf)[string]>> = {
  'POST /databases/:id/terminal instance_id': {
    kind: 'assignment',
    of: (stage) =>
      stage.world.mirror.tenant(stage.tenant).by('assignment', 'workload', databaseOf(stage))[0]?.meta.id ??
      randomUUID(),
  },
  'POST /databases/:id/switch volume_id': { kind: 'volume', of: formerVolumeOf },
  'POST /volumes backup_destination_id': ofVolumeSchedule,
  'PUT /volumes/:id backup_destination_id': ofVolumeSchedule,
  'POST /projects/:projectId/environments/:envId/clone destination_id': {
    ...ofVolumeSchedule,
    with: { include_data: true },
  },
  'POST /syncs git_credential_id': { kind: 'git_credential', of: ({ gitCredential }) => gitCredential },
  'PUT /syncs/:id git_credential_id': { kind: 'git_credential', of: ({ gitCredential }) => gitCredential },
};
/** Ids that others gave to what is theirs. */
const foreign = new Set(['account_id']);
type Reference = readonly [name: string, field: string, endpoint: AnyEndpoint];

const references: Reference[] = endpoints.flatMap((endpoint) => {
  const body = 'body' in endpoint ? endpoint.body : undefined;
  if (body === undefined) return [];
  const json = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any', reused: 'inline' });
  const forms = [json, ...(json.anyOf ?? []), ...(json.oneOf ?? []), ...(json.allOf ?? [])];
  const fields = new Set(forms.flatMap((form) => Object.keys(form.properties ?? {})));
  return [...fields]
    .filter((field) => /_id$|[a-z]Id$/.test(field) && !foreign.has(field))
    .map((field) => [routeName(endpoint), field, endpoint] as const);
});

function targetOf(name: string, field: string) {
  const target = kindAt[`${name} ${field}`] ?? kindOf[field];
  if (target === undefined) throw new Error(`Say in this file what ${field} points at`);
  return target;
}

/** A stage with what the route needs. */
async function stageOf(name: string, endpoint: AnyEndpoint, tenant = 'default'): Promise<Stage> {
  const column = permissions.get(name)!.grants.owner === '-' ? 'superadmin' : 'owner';
  const stage = await setStage(world, column, { tenant });
  await exampleOf(endpoint).before?.(stage);
  return stage;
}

/** Sends what is to be refused, and so writes nothing but the record of that. */
async function refusal(stage: Stage, request: Parameters<typeof ask>[1]): ReturnType<typeof ask> {
  store.reset();
  const answer = await ask(world, request, stage.actor.by.token);
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(store.keys.filter((key) => parseKey(key)?.area !== 'audit')).toEqual([]);
  return answer;
}

describe.each(references)('%s: %s', (name, field, endpoint) => {
  const refused = (stage: Stage, value: string) => {
    const { path, body } = exampleOf(endpoint);
    return refusal(stage, {
      method: endpoint.method,
      path: path(stage),
      body: { ...(body?.(stage) as object), ...targetOf(name, field).with, [field]: value },
    });
  };

  it('is an id', async () => {
    const stage = await stageOf(name, endpoint);
    for (const value of ['x', '../x', '00000000-0000-0000-0000-00000000000g', '']) {
      const answer = await refused(stage, value);
      expect([value, answer.status, answer.body.error?.code]).toEqual([value, 400, 'BAD_REQUEST']);
    }
  });

  it('is known in this tenant, and of its kind', async () => {
    const stage = await stageOf(name, endpoint);
    const stranger = await stageOf(name, endpoint, 'elsewhere');
    const target = targetOf(name, field);
    const others = Object.values(kindOf).filter(({ kind }) => kind !== target.kind);
    const right = target.of(stage);
    // a stage has only what the route needs
    const there = [...others.map(({ of }) => of(stage)), stage.application];
    const ofOthers = there.filter((id) => id !== right && id !== '');
    const wrong = [randomUUID(), ...ofOthers, target.of(stranger)];
    for (const value of wrong) {
      const answer = await refused(stage, value);
      expect([answer.status, answer.body.error?.code]).toEqual([404, 'NOT_FOUND']);
    }
  });

  it('is staying', async () => {
    const target = targetOf(name, field);
    const stage = await stageOf(name, endpoint);
    const repo = openRepository(world.store, 'default', world.clock);
    const it = await repo.get(target.kind, target.of(stage));
    const unit = repo.begin();
    unit.requestDelete(it!);
    await commit(unit);
    await world.settled();
    const answer = await refused(stage, target.of(stage));
    expect([404, 409]).toContain(answer.status);
  });
});

// servers, users, credentials, templates and destinations are of the tenant: everybody may name them; SSH keys are, and only its
// admins may
const ofProjects = references.filter(
  ([name, field]) =>
    field === 'new_owner_id' ||
    !['server', 'user', 'ssh_key', 'git_credential', 'registry', 'template', 'backup_destination'].includes(
      targetOf(name, field).kind,
    ),
);

describe.each(ofProjects)('%s: %s', (name, field, endpoint) => {
  it('is of the sender’s own projects', async () => {
    const stage = await setStage(world, 'owner');
    const foreign = await setStage(world, 'owner');
    const { path, body, before } = exampleOf(endpoint);
    await before?.(stage);
    await before?.(foreign);
    const value = targetOf(name, field).of(foreign);
    const answer = await refusal(stage, {
      method: name.split(' ')[0]!,
      path: path(stage),
      body: { ...(body?.(stage) as object), ...targetOf(name, field).with, [field]: value },
    });
    expect(field === 'new_owner_id' ? [409] : [403, 404]).toContain(answer.status);
  });
});
