import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { agentCapabilities } from '../../../agent-protocol/messages.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { GatewayWorld } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';
import { desiredState } from '../../harness/states.ts';

let world: GatewayWorld;
let replica: TestReplica;

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
});

afterEach(() => world[Symbol.asyncDispose]());

const git = {
  type: 'git',
  repository_url: 'https://git.example/web.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
};

/** An application on the server; answers how to add a deployment to it that ended so. */
async function application(server: string, source: object = git) {
  const id = randomUUID();
  await world.create('application', id, desiredState('application', { server_id: server }));
  const deploy = async (number: number, phase: ObservedOf<'deployment'>['phase'], digest: string): Promise<string> => {
    const unit = world.repo.begin();
    const deployment = unit.create(
      'deployment',
      randomUUID(),
      kinds.deployment.desired.parse({
        application_id: id,
        project_id: randomUUID(),
        environment_id: randomUUID(),
        server_id: server,
        number,
        trigger: 'manual',
        source,
        config: {},
        queued_at: '2026-01-01T00:00:00.000Z',
      }),
    );
    await commit(unit);
    const it = (await world.repo.get('deployment', deployment.meta.id))!;
    const observed = { phase, image_digest: digest, observedGeneration: 1, conditions: [] };
    await world.repo.observe<'deployment'>(it, observed, []);
    return deployment.meta.id;
  };
  return { id, deploy };
}

it('an agent hears which images each application may return to: of its last three revisions that served', async () => {
  const server = await world.server();
  const [web, other, pulled] = [
    await application(server.id),
    await application(server.id),
    await application(server.id, { type: 'image', image_url: 'example/web:1' }),
  ];
  await web.deploy(1, 'succeeded', 'd1');
  for (let n = 2; n <= 6; n++) await web.deploy(n, 'failed', `d${n}`);
  await pulled.deploy(1, 'succeeded', 'p1');
  const agent = rawAgent(replica.url, {
    server: server.id,
    key: agentKey(),
    token: server.token,
    capabilities: agentCapabilities,
  });
  const { kept, stored } = agent.backend;
  await until('the set came', async () => stored.length > 0);
  // before the set
  expect(new Map(kept)).toEqual(
    new Map([
      [web.id, ['d1']],
      [pulled.id, ['p1']],
    ]),
  );
  await web.deploy(7, 'succeeded', 'd7');
  await other.deploy(1, 'succeeded', 'o1');
  await until('both are heard of', async () => kept.size === 3 && kept.get(web.id)?.length === 2);
  expect(new Map(kept)).toEqual(
    new Map([
      [web.id, ['d7', 'd1']],
      [other.id, ['o1']],
      [pulled.id, ['p1']],
    ]),
  );
  await web.deploy(8, 'succeeded', 'd8');
  await web.deploy(9, 'succeeded', 'd9');
  await until('the oldest may go', async () => kept.get(web.id)?.[0] === 'd9');
  expect(kept.get(web.id)).toEqual(['d9', 'd8', 'd7']);
  await web.deploy(10, 'building', 'd10');
  await web.deploy(11, 'deploying', 'd11');
  await until('what is being rolled out stays, too', async () => kept.get(web.id)?.[0] === 'd11');
  expect(kept.get(web.id)).toEqual(['d11', 'd9', 'd8', 'd7']);
  agent.session.goodbye('The test is over');
  await agent.ended;
});

it('an agent hears of each version of a function that is built while it is connected, and of its end', async () => {
  const server = await world.server();
  const agent = rawAgent(replica.url, {
    server: server.id,
    key: agentKey(),
    token: server.token,
    capabilities: agentCapabilities,
  });
  const { kept, stored } = agent.backend;
  await until('the set came', async () => stored.length > 0);
  const id = randomUUID();
  await world.create('function', id, desiredState('function', { server_id: server.id }));
  const version = async (number: number): Promise<string> => {
    const of = desiredState('function_version', { function_id: id, server_id: server.id, number });
    const it = await world.create('function_version', randomUUID(), of);
    const observed = { phase: 'ready' as const, image_digest: `f${number}`, observedGeneration: 1, conditions: [] };
    await world.repo.observe<'function_version'>(it, observed, []);
    return it.meta.id;
  };
  const first = await version(1);
  await version(2);
  await until('both are heard of', async () => kept.get(id)?.length === 2);
  expect(kept.get(id)).toEqual(['f1', 'f2']);
  for (const step of ['request', 'release'] as const) {
    const unit = world.repo.begin();
    const it = (await world.repo.get('function_version', first))!;
    if (step === 'request') unit.requestDelete(it);
    else unit.release(it, 'function_version');
    await commit(unit);
  }
  await until('the first may go', async () => kept.get(id)?.length === 1);
  expect(kept.get(id)).toEqual(['f2']);
  agent.session.goodbye('The test is over');
  await agent.ended;
});

it('an agent that does not know of it gets none', async () => {
  const server = await world.server();
  const web = await application(server.id);
  const agent = rawAgent(replica.url, { server: server.id, key: agentKey(), token: server.token });
  const types: string[] = [];
  agent.socket.on('message', (data) => types.push(JSON.parse((data as Buffer).toString()).type));
  await until('the set came', async () => agent.backend.stored.length > 0);
  await web.deploy(1, 'succeeded', 'd1');
  await world.assignment(server.id);
  await until('more came', async () => agent.backend.stored.length > 1);
  expect(types).not.toContain('images.keep');
  agent.session.goodbye('The test is over');
  await agent.ended;
});
