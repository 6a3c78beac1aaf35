import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { maxControlFrameBytes } from '../../../agent-protocol/codec.ts';
import { agentCapabilities } from '../../../agent-protocol/messages.ts';
import { bounds } from '../../../agent-protocol/timing.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { Unsealer } from '../../../store/seal.ts';
import { commit } from '../../../store/unit.ts';
import { Projection } from '../../../controllers/gateway/projection.ts';
import { composedService } from '../../harness/composed-service.ts';
import { eventually } from '../../harness/eventually.ts';
import { GatewayWorld, assignmentState, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import type { RawAgent } from '../../harness/raw-agent.ts';
import { object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { until } from '../../harness/until.ts';
import { serviceSpec } from '../../harness/wire-items.ts';

let world: GatewayWorld;
let replica: TestReplica;
let opened: string[];
let agents: RawAgent[];

beforeEach(async () => {
  world = await GatewayWorld.start();
  opened = [];
  agents = [];
  const unsealer: Unsealer = {
    unseal(value, place) {
      opened.push(place.path);
      return world.keyring.unseal(value, place);
    },
  };
  replica = await world.replica({ unsealer });
});

afterEach(async () => {
  for (const { session } of agents) session.goodbye('The test is over');
  await Promise.all(agents.map(({ ended }) => ended));
  await world[Symbol.asyncDispose]();
});

interface Seen {
  server: string;
  agent: RawAgent;
  frames: { type: string; bytes: number; configurations: string[] }[];
}

/** An agent on a socket, and all frames that it was sent. */
async function connected(capabilities: readonly string[], server = world.server()): Promise<Seen> {
  const { id, token } = await server;
  const agent = rawAgent(replica.url, { server: id, key: agentKey(), token, capabilities });
  agents.push(agent);
  const frames: Seen['frames'] = [];
  agent.socket.on('message', (data) => {
    const text = (data as Buffer).toString();
    const { type, configurations = [] } = JSON.parse(text);
    frames.push({ type, bytes: text.length, configurations: configurations.map((it: { id: string }) => it.id) });
  });
  expect(await agent.outcome).toBe('welcome');
  return { server: id, agent, frames };
}

/** So many instances of a new application, whose variables have so many bytes. */
async function application(server: string, count: number, bytes: number) {
  const workload = randomUUID();
  const env = { BIG: 'x'.repeat(bytes), COLOUR: 'blue' };
  const deployment = await world.deployment(workload, world.seal(workload, env));
  const ids = Array.from({ length: count }, () => randomUUID());
  for (let from = 0; from < count; from += 15) {
    const unit = world.repo.begin();
    for (const id of ids.slice(from, from + 15))
      unit.create('assignment', id, assignmentState(server, { workload_id: workload, deployment_id: deployment }));
    await commit(unit);
  }
  return { ids, env, deployment };
}

const came = (seen: Seen, ids: readonly string[]) =>
  until('the instances came', async () => ids.every((id) => seen.agent.backend.items.has(id)), { timeoutMs: 25_000 });

describe('an agent that knows configurations', () => {
  it('is sent each once, however many instances refer to it, and it is opened once for that', async () => {
    const server = await world.server();
    const [red, blue] = [await application(server.id, 40, 1000), await application(server.id, 3, 1000)];
    const seen = await connected(agentCapabilities, Promise.resolve(server));
    await came(seen, [...red.ids, ...blue.ids]);
    expect(seen.frames.flatMap(({ configurations }) => configurations).toSorted()).toEqual(
      [red.deployment, blue.deployment].toSorted(),
    );
    expect(seen.agent.backend.envOf(red.ids[7]!)).toEqual(red.env);
    // Once to know that it opens, and once to send it.
    expect(opened.filter((path) => path === 'config.env.BIG')).toHaveLength(4);

    const more = await world.assignment(server.id, {
      workload_id: (await world.repo.get('assignment', red.ids[0]!))!.desired.workload_id,
      deployment_id: red.deployment,
    });
    await came(seen, [more.meta.id]);
    expect(seen.agent.backend.envOf(more.meta.id)).toEqual(red.env);
    expect(opened.filter((path) => path === 'config.env.BIG')).toHaveLength(4);
  });

  it('is sent a configuration again after the last instance that referred to it went', async () => {
    const seen = await connected(agentCapabilities);
    const { ids, deployment, env } = await application(seen.server, 1, 10);
    await came(seen, ids);
    const change = (run: 'running' | 'stopped') =>
      world.repo.change('assignment', ids[0]!, (draft) => {
        draft.run = run;
      });
    await change('stopped');
    await until('it is to stop', async () => seen.agent.backend.items.get(ids[0]!)?.run === 'stopped');
    expect(seen.agent.backend.configurations.size).toBe(0);
    await change('running');
    await until('it is to run', async () => seen.agent.backend.envOf(ids[0]!) !== undefined);
    expect(seen.agent.backend.envOf(ids[0]!)).toEqual(env);
    expect(seen.frames.flatMap(({ configurations }) => configurations)).toEqual([deployment, deployment]);
  });

  it('asks for everything if it lacks one, and gets it', async () => {
    const seen = await connected(agentCapabilities);
    const { ids, env, deployment } = await application(seen.server, 1, 10);
    await came(seen, ids);
    seen.agent.backend.configurations.clear();
    const more = await world.assignment(seen.server, {
      workload_id: (await world.repo.get('assignment', ids[0]!))!.desired.workload_id,
      deployment_id: deployment,
    });
    await came(seen, [more.meta.id]);
    expect(seen.agent.backend.envOf(more.meta.id)).toEqual(env);
    expect(seen.frames.filter(({ type }) => type === 'snapshot.end')).toHaveLength(2);
  });
});

describe('an agent that does not know configurations', () => {
  it('gets the variables in every item, in frames of a bounded size, in the snapshot and in what changes', async () => {
    const server = await world.server();
    const first = await application(server.id, 30, 32 * 1024);
    const seen = await connected([], Promise.resolve(server));
    await came(seen, first.ids);
    const second = await application(server.id, 30, 32 * 1024);
    await came(seen, second.ids);
    for (const { ids, env } of [first, second])
      for (const id of ids) expect(seen.agent.backend.items.get(id)?.spec).toMatchObject({ env });
    expect(seen.frames.filter(({ type }) => type === 'snapshot.end')).toHaveLength(1);
    for (const { bytes } of seen.frames) expect(bytes).toBeLessThan(2 * bounds.batchBytes);
    expect(2 * bounds.batchBytes).toBeLessThan(maxControlFrameBytes);
  });
});

describe('an agent that cannot build an earlier commit', () => {
  const build = (commit?: string) => ({
    type: 'build' as const,
    repository_url: 'https://git.example/web.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    build_context: '.',
    build_args: {},
    image: 'setpoint/web:1',
    deadline_seconds: 60,
    attempt: 1,
    ...(commit !== undefined && { commit }),
  });

  it('is not sent such a build, which says so', async () => {
    const seen = await connected([]);
    const early = await world.assignment(seen.server, { spec: build('c'.repeat(40)) });
    const head = await world.assignment(seen.server, { spec: build() });
    await came(seen, [head.meta.id]);
    const view = replica.mirror.tenant(tenant);
    const observed = () => view.get('assignment', early.meta.id)?.observed;
    await eventually(replica.mirror, () => observed()?.error?.code === 'agent_outdated');
    expect(observed()).toMatchObject({
      phase: 'failed',
      error: { message: expect.stringMatching(/upgrade the agent/) },
    });
    expect(seen.agent.backend.items.has(early.meta.id)).toBe(false);
    expect(view.agent(seen.server)?.capabilities).toEqual([]);
  });
});

describe('an agent that cannot copy Docker volumes', () => {
  const from = { docker_volume: 'blog_data', containers: ['blog-db-1'] };
  const copied = { type: 'copied_volume' as const, volume: 'sp-vol-1', copy_from: from };

  it('is not sent a volume that begins as a copy, neither as an empty one; only its removal', async () => {
    const seen = await connected(['volumes']);
    const copy = await world.assignment(seen.server, { spec: copied });
    const plain = await world.assignment(seen.server, { spec: { type: 'volume', volume: 'sp-vol-2' } });
    await came(seen, [plain.meta.id]);
    const view = replica.mirror.tenant(tenant);
    const observed = () => view.get('assignment', copy.meta.id)?.observed;
    await eventually(replica.mirror, () => observed()?.error?.code === 'agent_outdated');
    expect(observed()?.error?.message).toBe(
      'The agent of the server is too old to copy Docker volumes: upgrade the agent',
    );
    expect(seen.agent.backend.items.has(copy.meta.id)).toBe(false);

    await world.repo.change('assignment', copy.meta.id, (draft) => void (draft.run = 'stopped'));
    await came(seen, [copy.meta.id]);
    const sent = seen.agent.backend.items.get(copy.meta.id);
    expect([sent?.run, sent?.spec]).toEqual(['stopped', { type: 'volume', volume: 'sp-vol-1' }]);
  });

  it('is sent it once it can', async () => {
    const seen = await connected(['volumes', 'volumes.copy']);
    const copy = await world.assignment(seen.server, { spec: copied });
    await came(seen, [copy.meta.id]);
    expect(seen.agent.backend.items.get(copy.meta.id)?.spec).toEqual(copied);
  });
});

it('commands that are sealed in a deployment are in the items of its instances, where they are used', async () => {
  const { id: server } = await world.server();
  const [workload, deployment] = [randomUUID(), randomUUID()];
  const seal = (name: string, words: string[]) =>
    world.keyring.seal(JSON.stringify(words), {
      tenant,
      kind: 'application',
      id: workload,
      path: `services.web.words.${name}`,
    });
  const timing = { interval_seconds: 5, timeout_seconds: 5, failures: 3, start_seconds: 0 };
  const services = [
    {
      ...composedService('web', deployment),
      command: seal('command', ['serve', 'secret']),
      healthcheck: { ...timing, command: seal('probe', ['ask', 'secret']) },
    },
  ];
  await world.create(
    'deployment',
    deployment,
    desiredState('deployment', { application_id: workload, config: { env: {}, restart_policy: 'always' }, services }),
  );
  const probe = { type: 'command' as const, command: ['********'], successes: 1, ...timing };
  const config = { kind: 'deployment', id: deployment, service: 'web' } as const;
  const id = randomUUID();
  await world.create(
    'assignment',
    id,
    assignmentState(server, { workload_id: workload, version: deployment, spec: serviceSpec({ config, probe }) }),
  );
  const { mirror } = replica;
  await mirror.reached((await world.repo.get('assignment', id))!.meta.desiredRevision, AbortSignal.timeout(5000));
  const view = mirror.tenant(tenant);
  const capabilities = new Set(agentCapabilities);
  const it = view.get('assignment', id)!;
  const checked = new Projection({ view, unsealer: world.keyring, capabilities }).check(it);
  if ('code' in checked) throw new Error(checked.message);
  const { spec } = new Projection({ view, unsealer: world.keyring, capabilities }).item(checked);
  expect(spec).toMatchObject({ command: ['serve', 'secret'], probe: { command: ['ask', 'secret'] } });
  const unsealer: Unsealer = {
    unseal() {
      throw new Error('no key');
    },
  };
  expect(new Projection({ view, unsealer, capabilities }).check(it)).toMatchObject({ code: 'secret_unavailable' });
});

it.each<[string, Partial<DesiredOf<'deployment'>>, Record<string, string>, string | undefined]>([
  ['its exposed port', { gives_port: true }, {}, '8080'],
  ['what it was set to', { gives_port: true }, { PORT: '1234' }, '1234'],
  ['nothing where an earlier release made it, as its instances go on', {}, {}, undefined],
  [
    'nothing where a compose file has the variables',
    { gives_port: true, source: { type: 'compose', compose_file: { $sealed: 'x', for: 'x' } } },
    {},
    undefined,
  ],
])('a deployment has as PORT %s', (_, desired, env, expected) => {
  const application = randomUUID();
  const config = { env: world.seal(application, env), restart_policy: 'always' as const, exposed_port: 8080 };
  const source = { type: 'image' as const, image_url: 'example/web:1' };
  const holder = object(
    'deployment',
    desiredState('deployment', { application_id: application, source, config, ...desired }),
  );
  const view = replica.mirror.tenant(tenant);
  const projection = new Projection({ view, unsealer: world.keyring, capabilities: new Set(agentCapabilities) });
  const own = { ...holder, meta: { ...holder.meta, tenant } };
  expect(projection.configuration(own, undefined).env['PORT']).toBe(expected);
});
