import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { Unsealer } from '../../../store/seal.ts';
import { commit } from '../../../store/unit.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { GatewayWorld, assignmentState, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { applicationState } from '../../store/states.ts';
import { until } from '../../harness/until.ts';
import { wireItem } from '../../harness/wire-items.ts';

let world: GatewayWorld;
let replica: TestReplica;

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
});

afterEach(() => world[Symbol.asyncDispose]());

const viewOf = (id: string) => replica.mirror.tenant(tenant).get('assignment', id);

/** An assignment with one secret, sealed as the API does. */
function sealedAssignment(server: string, name: string, value: string) {
  const workload = randomUUID();
  const sealed = world.keyring.seal(value, { tenant, kind: 'application', id: workload, path: `config.env.${name}` });
  return world.assignment(server, { workload_id: workload }, { env: { [name]: sealed } });
}

describe('the desired set of an agent', () => {
  it('has its secrets opened, and the store never does', async () => {
    const server = await world.server();
    const item = await sealedAssignment(server.id, 'TOKEN', 'pässword\n"$x');
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the item came', async () => backend.items.has(item.meta.id));
    expect(backend.items.get(item.meta.id)?.spec).toMatchObject({ env: { TOKEN: 'pässword\n"$x' } });
    expect((await world.store.get(keys.desired(tenant, 'assignment', item.meta.id)))?.value).not.toContain('pässword');
  });

  it('I-13: leaves out what has a secret that does not open, says so, and does not touch what runs', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.onPut = running;
    const agent = await world.agent(replica, server, backend);
    const item = await sealedAssignment(server.id, 'TOKEN', 'secret');
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.ready);
    await agent[Symbol.asyncDispose]();
    // The control plane comes back without its keys.
    const unsealer: Unsealer = {
      unseal() {
        throw new Error('Key is unknown');
      },
    };
    const keyless = await world.replica({ unsealer });
    backend.stored.length = 0;
    await world.agent(keyless, { id: server.id }, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect(backend.stored).toMatchObject([{ ids: [item.meta.id] }]);
    expect(viewOf(item.meta.id)?.observed).toMatchObject({ phase: 'running', ready: true });

    const fresh = await sealedAssignment(server.id, 'OTHER', 'secret');
    await world.repo.change('assignment', item.meta.id, (draft) => {
      draft.run = 'stopped';
    });
    for (const [id, generation] of [
      [fresh.meta.id, 1],
      [item.meta.id, 2],
    ] as const)
      await eventually(replica.mirror, () => {
        expect(viewOf(id)?.observed).toMatchObject({
          phase: 'failed',
          ready: false,
          observedGeneration: generation,
          error: { code: 'secret_unavailable', message: expect.stringMatching(/TOKEN|OTHER/) },
        });
        return true;
      });
    expect(backend.items.get(item.meta.id)?.generation).toBe(1);
    expect(backend.items.has(fresh.meta.id)).toBe(false);
  });

  it('does not open a secret that was copied from another workload', async () => {
    const server = await world.server();
    const stolen = world.keyring.seal('secret', {
      tenant,
      kind: 'application',
      id: randomUUID(),
      path: 'config.env.TOKEN',
    });
    const item = await world.assignment(server.id, {}, { env: { TOKEN: stolen } });
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.error?.code === 'secret_unavailable');
    expect(backend.items.size).toBe(0);
  });

  it('changes by one delta per burst of changes', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the first snapshot came', async () => backend.stored.length === 1);
    const unit = world.repo.begin();
    const ids = Array.from({ length: 20 }, () => randomUUID());
    for (const id of ids) unit.create('assignment', id, kinds.assignment.desired.parse(assignmentState(server.id)));
    await commit(unit);
    await until('all came', async () => backend.items.size === 20);
    expect(backend.stored.slice(1)).toMatchObject([{ put: ids.toSorted() }]);
  });

  it('changes by a snapshot when very much changes', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the first snapshot came', async () => backend.stored.length === 1);
    const slow = Promise.withResolvers<void>();
    const delta = backend.delta.bind(backend);
    backend.delta = async (...args) => {
      await slow.promise;
      return delta(...args);
    };
    await world.assignment(server.id);
    for (let n = 0; n < 15; n++) {
      const unit = world.repo.begin();
      for (let m = 0; m < 20; m++)
        unit.create('assignment', randomUUID(), kinds.assignment.desired.parse(assignmentState(server.id)));
      await commit(unit);
    }
    await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
    slow.resolve();
    await until('all came', async () => backend.items.size === 301);
    expect(backend.stored.map((it) => ('snapshot' in it ? 'snapshot' : 'delta'))).toEqual([
      'snapshot',
      'delta',
      'snapshot',
    ]);
  });

  it('does not change when nothing that concerns the agent does', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.onPut = running;
    const item = await world.assignment(server.id);
    await world.agent(replica, server, backend);
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.ready);
    const other = await world.server();
    await world.assignment(other.id);
    await world.repo.change('assignment', item.meta.id, (draft) => {
      draft.run = 'running';
    });
    await world.assignment(server.id);
    await until('the later one came', async () => backend.items.size === 2);
    expect(backend.stored).toHaveLength(2);
  });

  it('is sent again when the agent could not store it, and less and less often', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.failStoring = new Error('disk full');
    let tries = 0;
    const snapshot = backend.snapshot.bind(backend);
    backend.snapshot = (...args) => {
      tries++;
      return snapshot(...args);
    };
    await world.assignment(server.id);
    await world.agent(replica, server, backend);
    await until('it was tried again', async () => tries === 2);
    backend.failStoring = undefined;
    await until('it was stored', async () => backend.items.size === 1);
    expect(tries).toBe(3);
  });

  it('brings the settings of the server when they change', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await world.connected(replica, server.id);
    await world.repo.change('server', server.id, (draft) => {
      draft.log_retention_days = 90;
    });
    await until('the setting came', async () => backend.retentionDays === 90);
  });
});

describe('after the store was rewound', () => {
  /** An agent whose set is of another history: it has what the store knows, and more. */
  async function rewound(known: number, unknown: number) {
    const server = await world.server();
    const backend = new FakeBackend();
    const items = await Promise.all(Array.from({ length: known }, () => world.assignment(server.id)));
    const lost = Array.from({ length: unknown }, () => randomUUID());
    backend.at = { incarnation: 'another history', revision: 5 };
    for (const id of [...items.map((it) => it.meta.id), ...lost]) {
      const item = wireItem(id);
      backend.items.set(id, item);
      backend.tell(running(item));
    }
    await world.agent(replica, server, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    return { server, backend, known: items.map((it) => it.meta.id), lost };
  }

  /** As an admin does it; answers whether anything was held. */
  async function confirm(server: string): Promise<boolean> {
    const key = keys.removals(tenant, server);
    const write = putHeldRemovals(tenant, server, { held: 1, confirmed: true });
    return (await world.store.txn({ if: [{ key, is: 'present' }], then: [write] })).committed;
  }

  it('an agent keeps what the store does not know if that is most of what it has, until that is confirmed', async () => {
    const { server, backend, known, lost } = await rewound(2, 3);
    expect([...backend.items.keys()].sort()).toEqual([...known, ...lost].sort());
    const events = await eventually(replica.mirror, () => replica.mirror.key(keys.events(tenant, 'server', server.id)));
    expect(events.value).toContain('RemovalsHeld');
    expect(backend.at?.incarnation).toBe(world.store.incarnation);

    expect(await confirm(server.id)).toBe(true);
    await until('the rest is gone', async () => backend.items.size === known.length);
    expect([...backend.items.keys()].sort()).toEqual(known.toSorted());
    await until('the hold is forgotten', async () => !(await confirm(server.id)));
  });

  it('the hold outlasts the session', async () => {
    const { server, backend, known, lost } = await rewound(1, 4);
    const agent = await world.agent(await world.replica(), { id: server.id }, backend);
    backend.stored.length = 0;
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect([...backend.items.keys()].sort()).toEqual([...known, ...lost].sort());
    await agent[Symbol.asyncDispose]();
    await confirm(server.id);
    await until('the rest is gone', async () => backend.items.size === known.length);
  });

  it('a smaller part is removed like everything that is not desired', async () => {
    const { server, backend, known } = await rewound(3, 2);
    expect([...backend.items.keys()].sort()).toEqual(known.toSorted());
    expect(await confirm(server.id)).toBe(false);
  });

  it('nothing is held for an agent of the same history', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.at = { incarnation: world.store.incarnation, revision: 1 };
    for (const id of ['a', 'b']) backend.items.set(id, wireItem(id));
    await world.agent(replica, server, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect(backend.items.size).toBe(0);
  });
});

describe('what an agent tells of its own doings', () => {
  it('becomes events of the assignment and its workload, and counts as drift once', async () => {
    const server = await world.server();
    const workload = randomUUID();
    await world.create('application', workload, applicationState({ server_id: server.id }));
    const item = await world.assignment(server.id, { workload_id: workload });
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the item came', async () => backend.items.has(item.meta.id));
    const event = { type: 'warning', reason: 'ContainerRemoved', message: 'Made again', drift: true } as const;
    const told = (restarts: number, seqs: number[]) => ({
      ...running({ ...item.meta }),
      restarts,
      events: { source: 's1', items: seqs.map((seq) => ({ ...event, seq })) },
    });
    const stored = (restarts: number) =>
      eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.restarts === restarts);
    backend.tell(told(1, [1]));
    await stored(1);
    backend.tell(told(2, [1]));
    await stored(2);
    expect(replica.drift).toEqual(['application']);
    backend.tell(told(3, [1, 2, 3]));
    await stored(3);
    expect(replica.drift).toHaveLength(3);
    for (const [kind, id] of [
      ['assignment', item.meta.id],
      ['application', workload],
    ] as const) {
      const ring = await eventually(replica.mirror, () => replica.mirror.key(keys.events(tenant, kind, id)));
      expect(ring.value).toContain('ContainerRemoved');
    }
    // The agent starts anew: its numbers begin again.
    backend.tell({ ...told(4, [1]), events: { source: 's2', items: [{ ...event, seq: 1 }] } });
    await stored(4);
    expect(replica.drift).toHaveLength(4);
  });

  it('counts once also when it is told to another replica again', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const backend = new FakeBackend();
    const agent = await world.agent(replica, server, backend);
    await until('the item came', async () => backend.items.has(item.meta.id));
    const events = {
      source: 's1',
      items: [{ seq: 1, type: 'warning', reason: 'ContainerRemoved', message: 'Made again', drift: true } as const],
    };
    backend.tell({ ...running({ ...item.meta }), events });
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.ready);
    await agent[Symbol.asyncDispose]();
    const other = await world.replica();
    backend.acknowledgements.length = 0;
    await world.agent(other, { id: server.id }, backend);
    await until('it was told again', async () => backend.acknowledgements.length > 0);
    expect([replica.drift, other.drift]).toEqual([['application'], []]);
  });
});
