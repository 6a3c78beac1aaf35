import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { hashJoinToken } from '../../../agent-protocol/join-token.ts';
import { systemClock } from '../../../time/clock.ts';
import { keys } from '../../../store/keys.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { provisioningOf } from '../../../store/provisioning.ts';
import { commit } from '../../../store/unit.ts';
import { openRepository } from '../../../store/repo.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import type { RawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';
import { desiredState } from '../../harness/states.ts';

let world: GatewayWorld;
let replica: TestReplica;
let agents: RawAgent[];

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
  agents = [];
});

afterEach(async () => {
  for (const { session, socket } of agents) {
    session.goodbye('Test ends');
    socket.terminate();
  }
  await world[Symbol.asyncDispose]();
});

function attempt(options: Parameters<typeof rawAgent>[1]): RawAgent {
  const agent = rawAgent(replica.url, options);
  agents.push(agent);
  return agent;
}

async function joined(server: { id: string; token: string }, key = agentKey()) {
  const agent = attempt({ server: server.id, key, token: server.token });
  expect(await agent.outcome).toBe('welcome');
  return { agent, key };
}

describe('SEC-53: an agent is taken in', () => {
  it('with a join token once, and by its key from then on', async () => {
    const server = await world.server();
    const { key } = await joined(server);
    expect(await attempt({ server: server.id, key }).outcome).toBe('welcome');
  });

  it('with a token and its registered key, as after a crash that lost the answer', async () => {
    const server = await world.server();
    const { key } = await joined(server);
    expect(await attempt({ server: server.id, key, token: server.token }).outcome).toBe('welcome');
  });

  it('with a new token for a server that had another agent, whose session ends', async () => {
    const server = await world.server();
    const { agent, key } = await joined(server);
    const before = (await world.repo.get('server', server.id))!.desired.agent_id;
    const token = await world.joinToken(server.id);
    await world.repo.change('server', server.id, (draft) => {
      draft.join_token_hash = hashJoinToken(token);
      draft.join_token_expires_at = new Date(Date.now() + 60_000).toISOString();
    });
    await joined({ id: server.id, token });
    expect((await agent.ended).kind).toBe('goodbye');
    expect((await world.repo.get('server', server.id))!.desired.agent_id).not.toBe(before);
    expect(await attempt({ server: server.id, key }).outcome).toBe('unauthorized');
  });
});

describe('SEC-53: the token of the operation that provisions a server', () => {
  /** A server, and the operation with that token, as its controller leaves it. */
  async function provisioned(observed: Partial<ObservedOf<'operation'>> = {}, desired: object = {}) {
    const server = await world.server();
    const token = await world.joinToken(server.id);
    const id = provisioningOf(server.id);
    const unit = world.repo.begin();
    unit.create('operation', id, {
      type: 'provision',
      server_id: server.id,
      asked: 'this',
      requested_at: new Date().toISOString(),
      deadline_seconds: 900,
      ...desired,
    });
    await commit(unit);
    const observe = async (changes: Partial<ObservedOf<'operation'>>): Promise<void> => {
      const it = (await world.repo.get('operation', id))!;
      const provisioning = { steps: [], done: 0, failures: 0, failed_jobs: 0, join_token_hash: hashJoinToken(token) };
      const state = { phase: 'running' as const, asked: 'this', provisioning, ...changes };
      await world.repo.observe(it, { ...state, observedGeneration: 1, conditions: [] }, []);
    };
    await observe(observed);
    return { server, token, observe };
  }

  it('lets one agent in, and every other token of the server is void then', async () => {
    const { server, token } = await provisioned();
    const { key } = await joined({ id: server.id, token });
    expect(await attempt({ server: server.id, key: agentKey(), token }).outcome).toBe('unauthorized');
    expect(await attempt({ server: server.id, key: agentKey(), token: server.token }).outcome).toBe('unauthorized');
    expect(await attempt({ server: server.id, key, token }).outcome).toBe('welcome');
  });

  it('does not take that of the user away', async () => {
    const { server, token } = await provisioned();
    await joined(server);
    expect(await attempt({ server: server.id, key: agentKey(), token }).outcome).toBe('unauthorized');
  });

  it.each<[string, Partial<ObservedOf<'operation'>>, object?]>([
    ['has ended', { phase: 'failed', finished_at: '2030-01-01T00:00:00.000Z' }],
    ['is asked for something else', { asked: 'that' }],
    [
      'has another token by now',
      { provisioning: { steps: [], done: 0, failures: 0, failed_jobs: 0, join_token_hash: 'x' } },
    ],
    ['has no token by now', { provisioning: { steps: [], done: 0, failures: 0, failed_jobs: 0 } }],
    ['has taken too long', {}, { requested_at: '2020-01-01T00:00:00.000Z' }],
  ])('opens nothing once the operation %s', async (_, observed, desired) => {
    const { server, token } = await provisioned(observed, desired);
    expect(await attempt({ server: server.id, key: agentKey(), token }).outcome).toBe('unauthorized');
  });

  it('of another server opens nothing', async () => {
    const { token } = await provisioned();
    const { server } = await provisioned();
    expect(await attempt({ server: server.id, key: agentKey(), token }).outcome).toBe('unauthorized');
  });
});

describe('SEC-53: an agent whose key was replaced by that of another', () => {
  const replaceKey = (server: string): Promise<unknown> =>
    world.repo.change('server', server, (draft) => {
      draft.agent_public_key = agentKey().publicKey;
    });

  it('loses its session', async () => {
    const server = await world.server();
    const { agent } = await joined(server);
    await replaceKey(server.id);
    expect(await agent.ended).toMatchObject({ kind: 'goodbye', reason: 'Another agent has joined as this server' });
  });

  it('gets none, if that happens after it was challenged', async () => {
    const server = await world.server();
    const { agent: first, key } = await joined(server);
    first.session.goodbye('Test goes on');
    const agent = attempt({ server: server.id, key });
    const send = agent.socket.send.bind(agent.socket);
    agent.socket.send = (data: string) => {
      if (data.includes('"type":"proof"')) void replaceKey(server.id).then(() => send(data));
      else send(data);
    };
    expect(await agent.ended).toMatchObject({ kind: 'refused', message: 'Another agent has joined as this server' });
    expect(agent.backend.stored).toEqual([]);
  });
});

describe('SEC-53: an agent is refused', () => {
  it('with a token that was used', async () => {
    const server = await world.server();
    await joined(server);
    expect(await attempt({ server: server.id, key: agentKey(), token: server.token }).outcome).toBe('unauthorized');
  });

  it('with a token that expired', async () => {
    const server = await world.server({ join_token_expires_at: new Date(Date.now() - 1000).toISOString() });
    expect(await attempt({ server: server.id, key: agentKey(), token: server.token }).outcome).toBe('unauthorized');
    expect((await world.repo.get('server', server.id))!.desired.agent_public_key).toBeUndefined();
  });

  it("with another server's token", async () => {
    const [one, other] = [await world.server(), await world.server()];
    expect(await attempt({ server: one.id, key: agentKey(), token: other.token }).outcome).toBe('unauthorized');
    const { desired } = (await world.repo.get('server', other.id))!;
    expect(desired.join_token_hash).toBe(hashJoinToken(other.token));
  });

  it("with a token that names the server but is not the server's", async () => {
    const server = await world.server();
    const token = await world.joinToken(server.id);
    expect(await attempt({ server: server.id, key: agentKey(), token }).outcome).toBe('unauthorized');
  });

  it('with a good token for a key that it does not hold, and the token stays good', async () => {
    const server = await world.server();
    const claims = agentKey().publicKey;
    const impostor = attempt({ server: server.id, key: agentKey(), claims, token: server.token });
    expect(await impostor.outcome).toBe('unauthorized');
    await joined(server);
  });

  it('with the registered public key of which it has not the private one', async () => {
    const server = await world.server();
    const { key } = await joined(server);
    expect(await attempt({ server: server.id, key: agentKey(), claims: key.publicKey }).outcome).toBe('unauthorized');
  });

  it('with another key, and with none registered', async () => {
    const [used, fresh] = [await world.server(), await world.server()];
    await joined(used);
    expect(await attempt({ server: used.id, key: agentKey() }).outcome).toBe('unauthorized');
    expect(await attempt({ server: fresh.id, key: agentKey() }).outcome).toBe('unauthorized');
  });

  it('as a server that does not exist, or was deleted', async () => {
    expect(await attempt({ server: randomUUID(), key: agentKey() }).outcome).toBe('unknown');
    expect(await attempt({ server: '../../other', key: agentKey() }).outcome).toBe('unknown');
    const server = await world.server();
    const { agent, key } = await joined(server);
    await world.delete('server', server.id);
    const it = (await world.repo.get('server', server.id))!;
    const unit = world.repo.begin();
    unit.release(it, 'server');
    await unit.commit();
    expect(await agent.ended).toMatchObject({ kind: 'goodbye', reason: 'The server was deleted' });
    expect(await attempt({ server: server.id, key }).outcome).toBe('unknown');
  });

  it('with a token once the deletion of its server was requested', async () => {
    const server = await world.server();
    await world.delete('server', server.id);
    expect(await attempt({ server: server.id, key: agentKey(), token: server.token }).outcome).toBe('retired');
  });

  it('when two use one token at once: one of them wins', async () => {
    const server = await world.server();
    const two = [agentKey(), agentKey()].map((key) => attempt({ server: server.id, key, token: server.token }));
    const outcomes = await Promise.all(two.map((agent) => agent.outcome));
    expect(outcomes.filter((it) => it === 'unauthorized').length).toBeGreaterThanOrEqual(1);
    expect(outcomes.filter((it) => it === 'welcome').length).toBeLessThanOrEqual(1);
    const { desired } = (await world.repo.get('server', server.id))!;
    expect(desired.join_token_hash).toBeUndefined();
    expect(desired.agent_public_key).toBeDefined();
  });

  it('when twenty use one token at once: exactly one joins, and the others are told why', async () => {
    const server = await world.server();
    /** Comes again as long as it is refused because too many come at once. */
    const use = async (key: ReturnType<typeof agentKey>): Promise<string> => {
      for (;;) {
        const agent = attempt({ server: server.id, key, token: server.token });
        const outcome = await agent.outcome;
        if (outcome === 'welcome') return outcome;
        const end = await agent.ended;
        if (end.kind !== 'refused') return JSON.stringify(end);
        if (end.code !== 'busy') return `${end.code}: ${end.message}`;
        await new Promise((resolve) => setTimeout(resolve, end.retryAfterMs));
      }
    };
    const all = Array.from({ length: 20 }, () => agentKey());
    const outcomes = await Promise.all(all.map(use));
    const winner = outcomes.indexOf('welcome');
    expect(outcomes.filter((it) => it === 'welcome')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome !== 'welcome')
        expect(outcome).toMatch(
          /^unauthorized: The join token (is used, expired or replaced|was used by another agent)$/,
        );
    const { desired } = (await world.repo.get('server', server.id))!;
    expect(desired).toMatchObject({ agent_public_key: all[winner]?.publicKey });
    expect(desired.join_token_hash).toBeUndefined();
    expect(agents.filter(({ socket }) => socket.readyState === WebSocket.OPEN)).toHaveLength(1);
  });

  it('when one uses its token twenty times at once, as after many restarts: it stays joined, with one session', async () => {
    const server = await world.server();
    const key = agentKey();
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => attempt({ server: server.id, key, token: server.token }).outcome),
    );
    expect(outcomes).toContain('welcome');
    expect((await world.repo.get('server', server.id))!.desired.agent_public_key).toBe(key.publicKey);
    await until('one session is left', async () => {
      const open = agents.filter(({ socket }) => socket.readyState === WebSocket.OPEN);
      return open.length === 1 && open[0]?.epoch() === replica.mirror.tenant(tenant).agent(server.id)?.epoch;
    });
  });
});

describe('a connection', () => {
  it('without the subprotocol is answered with 400', async () => {
    const socket = new WebSocket(`${replica.url.replace('http', 'ws')}/acme/agent/v1/connect`);
    const error = await new Promise<Error>((resolve) => socket.on('error', resolve));
    expect(error.message).toContain('400');
  });

  it('with a frame above the limit is closed', async () => {
    const server = await world.server();
    const { agent } = await joined(server);
    agent.socket.send('x'.repeat(1024 * 1024 + 1));
    expect(await agent.ended).toMatchObject({ kind: 'lost' });
    await eventually(replica.mirror, () => replica.mirror.tenant(tenant).agent(server.id) === undefined);
  });

  it('of more agents than are admitted gets each a later place of its own', async () => {
    const server = await world.server();
    const { key } = await joined(server);
    const crowd = Array.from({ length: 180 }, () => attempt({ server: server.id, key }));
    const ends = await Promise.all(
      crowd.map(async (agent) => ((await agent.outcome) === 'busy' ? agent.ended : undefined)),
    );
    const waits = ends.flatMap((end) => (end?.kind === 'refused' ? end.retryAfterMs : []));
    expect(waits.length).toBeGreaterThan(20);
    expect(new Set(waits).size).toBeGreaterThan(waits.length / 2);
  });

  it('has its live key say what the operator of its machine switched off', async () => {
    const server = await world.server();
    const forbids = ['terminals.server'];
    const agent = attempt({ server: server.id, key: agentKey(), token: server.token, capabilities: forbids, forbids });
    expect(await agent.outcome).toBe('welcome');
    await eventually(replica.mirror, () => replica.mirror.tenant(tenant).agent(server.id));
    expect(replica.mirror.tenant(tenant).agent(server.id)).toMatchObject({ capabilities: forbids, forbids });
  });

  it('has its live key say who is there, under its epoch', async () => {
    const server = await world.server();
    const { agent } = await joined(server);
    expect(replica.mirror.tenant(tenant).agent(server.id)).toMatchObject({
      replica: replica.id,
      epoch: agent.epoch(),
      machineId: 'machine',
      bootId: 'boot',
      agentVersion: '1.0.0',
      runtime: 'mock',
      runtimeVersion: '1',
    });
    agent.session.goodbye('done');
    await eventually(replica.mirror, () => replica.mirror.tenant(tenant).agent(server.id) === undefined);
  });
});

describe('an agent of one tenant', () => {
  const other = 'umbrella';

  it('neither joins nor connects in another, with its token, its key or the id of a server there', async () => {
    const server = await world.server();
    const token = { server: server.id, key: agentKey(), token: server.token, tenant: other };
    expect(await attempt(token).outcome).toBe('unknown');
    const { agent, key } = await joined(server);
    expect(await attempt({ server: server.id, key, tenant: other }).outcome).toBe('unknown');
    // even where both tenants had a server of one id
    const theirs = openRepository(world.store, other, systemClock);
    const made = theirs.begin();
    made.create(
      'server',
      server.id,
      desiredState('server', {
        ...(await world.repo.get('server', server.id))!.desired,
        agent_public_key: 'x',
      }),
    );
    await made.commit();
    expect(await attempt({ server: server.id, key, tenant: other }).outcome).toBe('unauthorized');
    expect((await theirs.get('server', server.id))?.desired.agent_public_key).toBe('x');
    expect(await world.store.get(keys.agent(other, server.id))).toBeUndefined();
    expect(agent.socket.readyState).toBe(WebSocket.OPEN);
  });

  it('is sent nothing of another, and cannot report what runs there', async () => {
    const server = await world.server();
    const assignment = await world.assignment(server.id);
    const theirs = openRepository(world.store, other, systemClock);
    const key = agentKey();
    const made = theirs.begin();
    made.create(
      'server',
      server.id,
      desiredState('server', {
        ...(await world.repo.get('server', server.id))!.desired,
        agent_public_key: key.publicKey,
      }),
    );
    await made.commit();
    const backend = new FakeBackend();
    const agent = attempt({ server: server.id, key, tenant: other, backend });
    expect(await agent.outcome).toBe('welcome');
    await until('it has its set', async () => backend.at !== undefined);
    expect([...backend.items.keys()]).toEqual([]);
    const rejected = Promise.withResolvers<unknown>();
    agent.socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string; seq?: number; rejected?: unknown };
      if (message.type === 'report_ack' && message.seq === 1000) rejected.resolve(message.rejected);
    });
    const report = running(assignment.meta);
    agent.socket.send(JSON.stringify({ type: 'report', seq: 1000, full: false, items: [report] }));
    expect(await rejected.promise).toEqual([{ id: assignment.meta.id, why: 'not_assigned' }]);
    expect((await world.repo.get('assignment', assignment.meta.id))?.observed).toBeUndefined();
  });
});
