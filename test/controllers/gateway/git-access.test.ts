import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { agentCapabilities } from '../../../agent-protocol/messages.ts';
import { Projection } from '../../../controllers/gateway/projection.ts';
import type { Mirror } from '../../../store/mirror.ts';
import { commit } from '../../../store/unit.ts';
import { assignmentState, GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import { buildSpec } from '../../harness/wire-items.ts';

let world: GatewayWorld;
let mirror: Mirror;
let server: string;
const host = 'git.example.test';

beforeEach(async () => {
  world = await GatewayWorld.start();
  mirror = (await world.replica()).mirror;
  server = (await world.server()).id;
});
afterEach(() => world[Symbol.asyncDispose]());

async function credential(token: string): Promise<string> {
  const id = randomUUID();
  const place = { tenant, kind: 'git_credential', id, path: 'credential.token' };
  const unit = world.repo.begin();
  unit.create('git_credential', id, {
    name: id,
    host,
    credential: { type: 'token', username: 'reader', token: world.keyring.seal(token, place) },
  });
  await commit(unit);
  return id;
}

async function buildWith(id: string) {
  const unit = world.repo.begin();
  const it = unit.create(
    'assignment',
    randomUUID(),
    assignmentState(server, { spec: { ...buildSpec(), git_credential: id } }),
  );
  await commit(unit);
  await mirror.reached(
    (await world.repo.get('assignment', it.meta.id))!.meta.desiredRevision,
    AbortSignal.timeout(5000),
  );
  return mirror.tenant(tenant).get('assignment', it.meta.id)!;
}

const projection = (capabilities: readonly string[] = agentCapabilities): Projection =>
  new Projection({ view: mirror.tenant(tenant), unsealer: world.keyring, capabilities: new Set(capabilities) });

it('the store has the id of a git credential, and the wire the secret as it is now', async () => {
  const id = await credential('first');
  const it = await buildWith(id);
  expect(it.desired.spec).toMatchObject({ git_credential: id });
  const wire = projection().item({ it, holder: undefined });
  expect(wire.spec['git_credential']).toEqual({ type: 'token', host, username: 'reader', token: 'first' });
  const place = { tenant, kind: 'git_credential', id, path: 'credential.token' };
  const rotated = await world.repo.change('git_credential', id, (draft) => {
    if (draft.credential.type === 'token') draft.credential.token = world.keyring.seal('second', place);
  });
  await mirror.reached(rotated!.meta.desiredRevision, AbortSignal.timeout(5000));
  expect(projection().item({ it, holder: undefined }).spec['git_credential']).toMatchObject({ token: 'second' });
  expect(projection().call({ method: 'git.head', repository_url: 'u', branch: 'b', git_credential_id: id })).toEqual({
    method: 'git.head',
    repository_url: 'u',
    branch: 'b',
    credential: { type: 'token', host, username: 'reader', token: 'second' },
  });
});

it('a credential that is gone or does not open fails the build: nothing is read with less', async () => {
  const call = (id: string) => () =>
    projection().call({ method: 'git.head', repository_url: 'u', branch: 'b', git_credential_id: id });
  const lost = randomUUID();
  expect(projection().check(await buildWith(lost))).toMatchObject({
    code: 'secret_unavailable',
    message: expect.stringContaining('is not in the store any more'),
  });
  expect(call(lost)).toThrow(expect.objectContaining({ code: 'secret_unavailable' }));
  const [first, second] = [await credential('first'), await credential('second')];
  const moved = (await world.repo.get('git_credential', first))!.desired.credential;
  await world.repo.change(
    'git_credential',
    second,
    (draft) => void (draft.credential = moved as typeof draft.credential),
  );
  expect(projection().check(await buildWith(second))).toMatchObject({
    code: 'secret_unavailable',
    message: expect.stringContaining('cannot be decrypted'),
  });
});

it('an agent that cannot find tags is not asked for them', () => {
  const call = { method: 'git.tag', repository_url: 'u', tag_pattern: 'v*' } as const;
  expect(projection().call(call)).toEqual(call);
  const earlier = agentCapabilities.filter((it) => it !== 'git.tags');
  expect(() => projection(earlier).call(call)).toThrow(expect.objectContaining({ code: 'agent_outdated' }));
});

it('an agent of an earlier release is sent no build with a credential, and says what to do', async () => {
  const id = await credential('first');
  const earlier = agentCapabilities.filter((it) => it !== 'git.credentials');
  expect(projection(earlier).check(await buildWith(id))).toEqual({
    code: 'agent_outdated',
    message: expect.stringContaining('upgrade the agent'),
  });
  expect(() =>
    projection(earlier).call({ method: 'git.head', repository_url: 'u', branch: 'b', git_credential_id: id }),
  ).toThrow(expect.objectContaining({ code: 'agent_outdated' }));
});
