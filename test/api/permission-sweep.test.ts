import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPasswords } from '../../api/auth/passwords.ts';
import { isDownload, routeName } from '../../api/endpoint/endpoint.ts';
import type { AnyEndpoint } from '../../api/endpoint/endpoint.ts';
import { hasIndex } from '../../api/resources/resource.ts';
import { columns } from '../../api/rights/permissions.ts';
import type { Column, Grant } from '../../api/rights/permissions.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { createTenant } from '../../store/tenants.ts';
import { password, startApi } from '../harness/api.ts';
import type { Answer, ApiWorld } from '../harness/api.ts';
import { expectedOf } from '../harness/route-table.ts';
import { ask, recast, setStage } from '../harness/stage.ts';
import type { ActorOptions, Credential, Stage } from '../harness/stage.ts';
import { longTag } from '../layer-report.ts';
import { exampleOf, named } from './examples.ts';

/** Every route, asked by every kind of caller, answers as its line in `routes.txt` says: each cell of the table. */
let world: ApiWorld;
let passwordHash: string;

beforeAll(async () => {
  passwordHash = await createPasswords().hash(password);
});

const unlimited = { perMinute: 0, burst: 1 };
const scopes = ['read', 'deploy', 'write', 'admin'] as const;

async function stageFor(
  endpoint: AnyEndpoint,
  column: Column,
  options: Omit<ActorOptions, 'role'> & { tenant?: string } = {},
) {
  const example = exampleOf(endpoint);
  const stage = await setStage(world, column, { ...options, ...(example.withPassword && { passwordHash }) });
  await example.before?.(stage);
  return stage;
}

function requestOf(endpoint: AnyEndpoint, stage: Stage) {
  const { path, body } = exampleOf(endpoint);
  return { method: endpoint.method, path: path(stage), ...(body !== undefined && { body: body(stage) }) };
}

/** What the route answers to whom it lets. */
function granted(endpoint: AnyEndpoint): number {
  const { status } = exampleOf(endpoint);
  if (status !== undefined) return status;
  if (endpoint.list) return 200;
  if (isDownload(endpoint)) return 200;
  return endpoint.response === undefined ? 204 : (endpoint.status ?? 200);
}

/** Kinds whose objects are found by their project. */
const ofProjects = (Object.keys(kinds) as KindName[]).filter((kind) => hasIndex(kind, 'project'));

/** Versions of all that is on the stage. */
function versions({
  tenant,
  project,
  server,
  emptyServer,
  sshKey,
  gitCredential,
  registry,
  backupDestination,
  actor,
}: Stage): unknown {
  const view = world.mirror.tenant(tenant);
  const objects = [
    view.get('project', project),
    view.get('server', server),
    view.get('server', emptyServer),
    view.get('ssh_key', sshKey),
    view.get('git_credential', gitCredential),
    view.get('registry', registry),
    view.get('backup_destination', backupDestination),
    view.get('user', actor.id),
    view.get('session', actor.session),
    view.get('service_key', actor.keyId),
    ...ofProjects.flatMap((kind) => view.by(kind, 'project', project)),
  ];
  return objects.map((one) => one && [one.meta.kind, one.meta.id, one.meta.desiredRevision]);
}

/** Whether the column after that one is granted something else. */
function isEdge(grants: Readonly<Record<Column, Grant>>, at: number): boolean {
  const [one, next] = [columns[at], columns[at + 1]];
  return one !== undefined && next !== undefined && grants[one] !== grants[next];
}

function ids(answer: Answer): string[] {
  return (answer.data as { id: string }[]).map(({ id }) => id);
}

async function expectRefusal(stage: Stage, ask: () => Promise<Answer>, status: number): Promise<void> {
  const before = versions(stage);
  const answer = await ask();
  const codes: Record<number, string> = { 401: 'UNAUTHORIZED', 403: 'FORBIDDEN', 404: 'NOT_FOUND' };
  expect([answer.status, answer.body.error?.code]).toEqual([status, codes[status]]);
  await world.settled();
  expect(versions(stage)).toEqual(before);
}

function expectGrant(
  endpoint: AnyEndpoint,
  stage: Stage,
  column: Column,
  answer: Answer,
  grant = expectedOf(routeName(endpoint)).grants[column],
): void {
  const { item, masked } = exampleOf(endpoint);
  expect([answer.status, answer.body?.error?.message]).toEqual([granted(endpoint), answer.body?.error?.message]);
  const text = JSON.stringify(answer.body ?? null);
  if (masked !== undefined) {
    if (grant === 'm') expect(text).not.toMatch(masked);
    if (grant === '+') expect(text).toMatch(masked);
  }
  // a filtered list shows what its reader may see: nothing to one who has no part in the project
  if (item !== undefined) expect(ids(answer).includes(item(stage))).toBe(grant !== 'f' || column !== 'other');
}

describe.each(named)('%s', (name, endpoint) => {
  /** Who is refused changes nothing: one stage is enough for all of them, and one of another tenant. */
  let untouched: Promise<Stage> | undefined;
  let strange: Promise<Stage> | undefined;
  const refusing = async (column: Column, options: Omit<ActorOptions, 'role'> = {}): Promise<Stage> => {
    untouched ??= stageFor(endpoint, 'superadmin');
    const stage = await untouched;
    if (column !== 'owner') return recast(stage, column, options);
    if (Object.keys(options).length > 0) return stageFor(endpoint, column, options);
    stage.actor = stage.owner;
    return stage;
  };
  const stranger = (): Promise<Stage> => (strange ??= stageFor(endpoint, 'superadmin', { tenant: 'elsewhere' }));

  beforeAll(async () => {
    world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited } });
    await createTenant(world.store, 'elsewhere', world.clock);
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    expect(world.faults).toEqual([]);
  });

  const row = expectedOf(name);
  const isPublic = row.scope === 'none';
  const strongest = columns.find((one) => row.grants[one] !== '-')!;
  /** Those beside whom the row changes, and who may least: whoever stands between two of them has what both have. */
  const people = columns.filter(
    (_, at) => at === columns.length - 1 || isEdge(row.grants, at) || isEdge(row.grants, at - 1),
  );
  const otherPeople = columns.filter((one) => !people.includes(one));
  const least = row.scope === 'session' ? scopes.length : scopes.findIndex((one) => one === row.scope);

  it.each(people)('answers the %s as its row says, by token and by service key', asksAs);
  it.each(otherPeople)('answers the %s as its row says, too', { tags: [longTag] }, asksAs);

  async function asksAs(column: Column): Promise<void> {
    const isRefused = row.grants[column] === '-';
    let stage = await (isRefused ? refusing(column) : stageFor(endpoint, column));
    for (const by of ['token', 'key'] as const) {
      const send = () => ask(world, requestOf(endpoint, stage), stage.actor.by[by]);
      if (isRefused || (by === 'key' && row.scope === 'session')) await expectRefusal(stage, send, 403);
      else {
        expectGrant(endpoint, stage, column, await send());
        // what was changed is no stage for another one
        if (by === 'token' && endpoint.method !== 'GET') stage = await stageFor(endpoint, column);
      }
    }
  }

  it('asks for a credential that is good', async () => {
    const stage = await (isPublic ? stageFor(endpoint, 'superadmin') : refusing('superadmin'));
    const other = await stranger();
    const { by } = stage.actor;
    const bad: Credential[] = [
      {},
      other.actor.by.token,
      other.actor.by.key,
      { authorization: 'Bearer x' },
      { authorization: by.token['authorization']!.slice(0, -3) },
      { 'x-service-key': `${by.key['x-service-key']!.slice(0, -1)}!` },
    ];
    const request = requestOf(endpoint, stage);
    for (const credential of bad) {
      if (isPublic) expect((await ask(world, request, credential)).status).toBe(granted(endpoint));
      else await expectRefusal(stage, () => ask(world, request, credential), 401);
    }
  });

  it('refuses a parameter that it does not know, where it only reads', async () => {
    if (endpoint.method !== 'GET') return;
    const stage = await stageFor(endpoint, strongest);
    const { path, ...request } = requestOf(endpoint, stage);
    const asked = { ...request, path: `${path}${path.includes('?') ? '&' : '?'}surprise=3` };
    const { status, body } = await ask(world, asked, stage.actor.by.token);
    expect([status, body.error?.details]).toEqual([
      400,
      [{ field: 'surprise', reason: 'unknown_field', message: 'Unknown field surprise' }],
    ]);
  });

  it('finds no object of another tenant', async () => {
    // settings have no id: the same path means those of each tenant
    if (endpoint.on === undefined || endpoint.on[0] === 'settings') return;
    const stage = await refusing('superadmin');
    const other = await stranger();
    const request = { ...requestOf(endpoint, stage), tenant: 'elsewhere' };
    await expectRefusal(stage, () => ask(world, request, other.actor.by.token), 404);
  });

  it('asks a service key for its scope', () => asksByKeys((at) => at === least - 1 || at === least));
  it('asks service keys of further scopes, too', { tags: [longTag] }, () =>
    asksByKeys((at) => at < least - 1 || at > least),
  );

  async function asksByKeys(isAsked: (at: number) => boolean): Promise<void> {
    if (isPublic) return;
    for (const [at, scope] of scopes.entries()) {
      if (!isAsked(at)) continue;
      const isRefused = at < least;
      const stage = await (isRefused ? refusing : stageFor.bind(undefined, endpoint))(strongest, { scopes: [scope] });
      const send = () => ask(world, requestOf(endpoint, stage), stage.actor.by.key);
      if (isRefused) await expectRefusal(stage, send, 403);
      else {
        const isMasked = row.isMasked && at < scopes.indexOf('write');
        expectGrant(endpoint, stage, strongest, await send(), isMasked ? 'm' : undefined);
      }
    }
  }

  it('shows a key that is narrowed to a project nothing of the account', async () => {
    if (isPublic || row.grants.owner !== 's') return;
    const stage = await stageFor(endpoint, 'owner', { keyProject: 'own' });
    const body = exampleOf(endpoint).bodyOfNarrowed?.(stage);
    const request = { ...requestOf(endpoint, stage), ...(body !== undefined && { body }) };
    const send = () => ask(world, request, stage.actor.by.key);
    if (row.isOfNarrowed) expectGrant(endpoint, stage, 'owner', await send());
    else await expectRefusal(stage, send, 403);
  });

  it('waits for somebody who must change the password', async () => {
    if (isPublic) return;
    const reset = { mustResetPassword: true };
    const stage = await (row.isOpenInReset ? stageFor(endpoint, strongest, reset) : refusing(strongest, reset));
    for (const by of ['token', 'key'] as const) {
      const send = () => ask(world, requestOf(endpoint, stage), stage.actor.by[by]);
      if (row.isOpenInReset && !(by === 'key' && row.scope === 'session'))
        expectGrant(endpoint, stage, strongest, await send());
      else await expectRefusal(stage, send, 403);
    }
  });
});
