import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import type { Unsealer } from '../../../store/seal.ts';
import { commit } from '../../../store/unit.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { GatewayWorld, assignmentState, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { until } from '../../harness/until.ts';
import { wireItem } from '../../harness/wire-items.ts';
import { desiredState } from '../../harness/states.ts';

let world: GatewayWorld;
let replica: TestReplica;

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
});

afterEach(() => world[Symbol.asyncDispose]());

const viewOf = (id: string) => replica.mirror.tenant(tenant).get('assignment', id);

/** An assignment with one secret, sealed as the API does. */
async function sealedAssignment(server: string, name: string, value: string) {
  const workload = randomUUID();
  const deployment = await world.deployment(workload, world.seal(workload, { [name]: value }));
  return world.assignment(server, { workload_id: workload, deployment_id: deployment });
}

/** Of a control plane that has not the key of what applications hold. */
function withoutSecrets(): Unsealer {
  return {
    unseal(value, place) {
      if (place.kind === 'application') throw new Error('Key is unknown');
      return world.keyring.unseal(value, place);
    },
  };
}

describe('the desired set of an agent', () => {
  it('has its secrets opened, and the store never does', async () => {
    const server = await world.server();
    const item = await sealedAssignment(server.id, 'TOKEN', 'pässword\n"$x');
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the item came', async () => backend.items.has(item.meta.id));
    expect(backend.envOf(item.meta.id)).toEqual({ TOKEN: 'pässword\n"$x' });
    for (const [kind, id] of [
      ['assignment', item.meta.id],
      ['deployment', item.desired.version],
    ] as const)
      expect((await world.store.get(keys.desired(tenant, kind, id)))?.value).not.toContain('pässword');
  });

  it('I-13: leaves out what has a secret that does not open, says so, and does not touch what runs', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.onPut = running;
    const agent = await world.agent(replica, server, backend);
    const item = await sealedAssignment(server.id, 'TOKEN', 'secret');
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.ready);
    await agent[Symbol.asyncDispose]();
    const keyless = await world.replica({ unsealer: withoutSecrets() });
    backend.stored.length = 0;
    await world.agent(keyless, { id: server.id }, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect(backend.stored).toMatchObject([{ ids: [item.meta.id] }]);
    expect(viewOf(item.meta.id)?.observed).toMatchObject({ phase: 'running', ready: true });

    const fresh = await sealedAssignment(server.id, 'OTHER', 'secret');
    await world.repo.change('assignment', item.meta.id, (draft) => {
      if (draft.spec.type === 'service') draft.spec.restart_token = 'again';
    });
    for (const [id, generation, seen] of [
      [fresh.meta.id, 1, { phase: 'failed' }],
      [item.meta.id, 2, { phase: 'running', container_id: running(item.meta).container_id }],
    ] as const)
      await eventually(replica.mirror, () => {
        expect(viewOf(id)?.observed).toMatchObject({
          ...seen,
          ready: false,
          observedGeneration: generation,
          error: { code: 'secret_unavailable', message: expect.stringMatching(/TOKEN|OTHER/) },
        });
        return true;
      });
    expect(backend.items.get(item.meta.id)?.generation).toBe(1);
    expect(backend.items.has(fresh.meta.id)).toBe(false);
  });

  it('has all that a replica cannot read left as it is, also when it changes', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.onPut = running;
    const agent = await world.agent(replica, server, backend);
    const item = await world.assignment(server.id);
    const other = await world.assignment(server.id);
    await until('both came', async () => backend.items.size === 2);
    await agent[Symbol.asyncDispose]();

    /** As a newer release writes it. */
    const rewrite = async (change: (desired: Record<string, unknown>) => void): Promise<void> => {
      const key = keys.desired(tenant, 'assignment', item.meta.id);
      const record = JSON.parse((await world.store.get(key))!.value) as { v: number; desired: Record<string, unknown> };
      record.v += 1;
      change(record.desired);
      const write = { put: key, value: JSON.stringify(record) };
      expect((await world.store.txn({ if: [], then: [write] })).committed).toBe(true);
    };
    await rewrite((desired) => (desired['spec'] = { type: 'machine', kernel: 'linux' }));
    const older = await world.replica();
    expect(older.mirror.tenant(tenant).unreadable('assignment')).toEqual([item.meta.id]);
    backend.stored.length = 0;
    const session = await world.agent(older, { id: server.id }, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect(older.mirror.tenant(tenant).heldRemovals(server.id)).toBeUndefined();
    await rewrite((desired) => (desired['spec'] = { type: 'machine', kernel: 'other' }));
    await world.repo.change('assignment', other.meta.id, (draft) => {
      draft.run = 'stopped';
    });
    await until('the change came', async () => backend.items.get(other.meta.id)?.run === 'stopped');
    expect(backend.items.get(item.meta.id)).toMatchObject({ generation: 1, spec: { type: 'service' } });
    await session[Symbol.asyncDispose]();
    await rewrite((desired) => (desired['spec'] = item.desired.spec));
    await until('it is read again', async () => older.mirror.tenant(tenant).unreadable('assignment').length === 0);
  });

  it('I-09: stops what has a secret that does not open: to stop needs none', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.onPut = (item) => ({ ...running(item), ...(item.run === 'stopped' && { phase: 'stopped', ready: false }) });
    const agent = await world.agent(replica, server, backend);
    const item = await sealedAssignment(server.id, 'TOKEN', 'secret');
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.ready);
    await agent[Symbol.asyncDispose]();
    const keyless = await world.replica({ unsealer: withoutSecrets() });
    await world.agent(keyless, { id: server.id }, backend);
    await world.repo.change('assignment', item.meta.id, (draft) => {
      draft.run = 'stopped';
    });
    await eventually(replica.mirror, () => {
      expect(viewOf(item.meta.id)?.observed).toMatchObject({ phase: 'stopped', observedGeneration: 2 });
      return true;
    });
    expect(backend.items.get(item.meta.id)).toMatchObject({ generation: 2, run: 'stopped' });
  });

  it('does not open a secret that was copied from another workload', async () => {
    const server = await world.server();
    const stolen = world.keyring.seal('secret', {
      tenant,
      kind: 'application',
      id: randomUUID(),
      path: 'config.env.TOKEN',
    });
    const workload = randomUUID();
    const deployment = await world.deployment(workload, { TOKEN: stolen });
    const item = await world.assignment(server.id, { workload_id: workload, deployment_id: deployment });
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.error?.code === 'secret_unavailable');
    expect(backend.items.size).toBe(0);
  });

  it('does not give an instance the configuration of another workload', async () => {
    const server = await world.server();
    const other = await sealedAssignment(server.id, 'TOKEN', 'secret');
    const item = await world.assignment(server.id, { deployment_id: other.desired.version });
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.error?.code === 'secret_unavailable');
    expect([...backend.items.keys()]).toEqual([other.meta.id]);
  });

  it('changes by one delta per burst of changes', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the first snapshot came', async () => backend.stored.length === 1);
    const unit = world.repo.begin();
    const ids = Array.from({ length: 20 }, () => randomUUID());
    for (const id of ids) unit.create('assignment', id, assignmentState(server.id));
    await commit(unit);
    await until('all came', async () => backend.items.size === 20);
    expect(backend.stored.slice(1)).toMatchObject([{ put: ids.toSorted() }]);
  });

  it('changes by a snapshot when very much changes', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the first snapshot came', async () => backend.stored.length === 1);
    const [begun, slow] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const delta = backend.delta.bind(backend);
    backend.delta = async (...args) => {
      begun.resolve();
      await slow.promise;
      return delta(...args);
    };
    await world.assignment(server.id);
    await begun.promise;
    for (let n = 0; n < 15; n++) {
      const unit = world.repo.begin();
      for (let m = 0; m < 20; m++) unit.create('assignment', randomUUID(), assignmentState(server.id));
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

  it('that cannot be made ends the session, and comes when the agent connects again', async () => {
    const { mirror } = replica;
    const tenantOf = mirror.tenant.bind(mirror);
    let failures = 0;
    mirror.tenant = (name) => {
      const view = tenantOf(name);
      const unreadable: typeof view.unreadable = (kind) => {
        if (kind !== 'assignment' || failures > 0) return view.unreadable(kind);
        failures += 1;
        throw new TypeError('bug');
      };
      return { ...view, unreadable };
    };
    const server = await world.server();
    const backend = new FakeBackend();
    const item = await world.assignment(server.id);
    await world.agent(replica, server, backend);
    await until('it has its set', async () => backend.items.has(item.meta.id));
    expect(failures).toBe(1);
  });

  it('brings the settings of the server when they change', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await world.connected(replica, server.id);
    await world.repo.change('server', server.id, (draft) => {
      draft.log_retention_days = 90;
      draft.direct_ports = { from: 8000, to: 8999, reserved: [8500], bindings: [] };
    });
    await until('the setting came', async () => backend.retentionDays === 90);
    expect(backend.ports).toEqual({ from: 8000, to: 8999, reserved: [8500], own: [7070], bindings: [] });
  });
});

describe('after the store was rewound', () => {
  /** An agent whose set is of another history: it has what the store knows, and more. */
  async function rewound(known: number, unknown: number, incarnation = 'another history') {
    const server = await world.server();
    const backend = new FakeBackend();
    const items = await Promise.all(Array.from({ length: known }, () => world.assignment(server.id)));
    const lost = Array.from({ length: unknown }, () => randomUUID());
    backend.at = { incarnation, revision: 5 };
    for (const id of [...items.map((it) => it.meta.id), ...lost]) {
      const item = wireItem(id);
      backend.items.set(id, item);
      backend.setReport(running(item));
    }
    await world.agent(replica, server, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    return { server, backend, known: items.map((it) => it.meta.id), lost };
  }

  /** As an admin does it; answers whether anything was held. */
  async function confirm(server: string): Promise<boolean> {
    const key = keys.removals(tenant, server);
    const era = (await world.store.get(keys.meta('era')))?.value ?? '';
    const write = putHeldRemovals(tenant, server, { held: 1, confirmed: true, era });
    return (await world.store.txn({ if: [{ key, is: 'present' }], then: [write] })).committed;
  }

  it.each([
    ['most', 2, 3],
    ['the smaller part', 3, 2],
    ['one', 4, 1],
  ])(
    'an agent keeps what the store does not know, be it %s of what it has, until that is confirmed',
    async (_, of, not) => {
      const { server, backend, known, lost } = await rewound(of, not);
      expect([...backend.items.keys()].sort()).toEqual([...known, ...lost].sort());
      const events = await eventually(replica.mirror, () =>
        replica.mirror.key(keys.events(tenant, 'server', server.id)),
      );
      expect(events.value).toContain('RemovalsHeld');
      expect(backend.at?.incarnation).toBe(await world.history());

      expect(await confirm(server.id)).toBe(true);
      await until('the rest is gone', async () => backend.items.size === known.length);
      expect([...backend.items.keys()].sort()).toEqual(known.toSorted());
      await until('the hold is forgotten', async () => !(await confirm(server.id)));
    },
  );

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

  it('an agent keeps it as well if its set is of an era that the store has forgotten, whatever the revisions are', async () => {
    const before = await world.history();
    await world.replica(); // begins an era
    expect(await world.history()).not.toBe(before);
    const { server, backend, known, lost } = await rewound(1, 1, before);
    expect([...backend.items.keys()].sort()).toEqual([...known, ...lost].sort());
    expect(await confirm(server.id)).toBe(true);
  });

  it('an agent of a release that knows no eras keeps it, too', async () => {
    const { server, backend, known, lost } = await rewound(1, 1, world.store.incarnation);
    expect([...backend.items.keys()].sort()).toEqual([...known, ...lost].sort());
    expect(await confirm(server.id)).toBe(true);
  });

  it('an agent whose set is ahead of the store keeps it in one era, too', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.at = { incarnation: await world.history(), revision: 1_000_000 };
    backend.items.set('a', wireItem('a'));
    backend.setReport(running(wireItem('a')));
    await world.agent(replica, server, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect([...backend.items.keys()]).toEqual(['a']);
    expect(await confirm(server.id)).toBe(true);
  });

  it('nothing is held of an agent that has nothing else than the store knows', async () => {
    const { server, backend, known } = await rewound(3, 0);
    expect([...backend.items.keys()].sort()).toEqual(known.toSorted());
    expect(await confirm(server.id)).toBe(false);
  });

  it('nothing is held for an agent of the same history, such as one that was put back itself', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.at = { incarnation: await world.history(), revision: 1 };
    for (const id of ['a', 'b']) {
      backend.items.set(id, wireItem(id));
      backend.setReport(running(wireItem(id)));
    }
    await world.agent(replica, server, backend);
    await until('the snapshot came', async () => backend.stored.length > 0);
    expect(backend.items.size).toBe(0);
    expect(await confirm(server.id)).toBe(false);
  });
});

describe('what an agent reports of its own doings', () => {
  it('becomes events of the assignment and its workload, and counts as drift once', async () => {
    const server = await world.server();
    const workload = randomUUID();
    await world.create('application', workload, desiredState('application', { server_id: server.id }));
    const deployment = await world.deployment(workload);
    const item = await world.assignment(server.id, { workload_id: workload, deployment_id: deployment });
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('the item came', async () => backend.items.has(item.meta.id));
    const event = { type: 'warning', reason: 'ContainerRemoved', message: 'Made again', drift: true } as const;
    const reportOf = (restarts: number, seqs: number[]) => ({
      ...running({ ...item.meta }),
      restarts,
      events: { source: 's1', items: seqs.map((seq) => ({ ...event, seq })) },
    });
    const stored = (restarts: number) =>
      eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.restarts === restarts);
    backend.setReport(reportOf(1, [1]));
    await stored(1);
    backend.setReport(reportOf(2, [1]));
    await stored(2);
    expect(replica.drift).toEqual(['application']);
    backend.setReport(reportOf(3, [1, 2, 3]));
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
    backend.setReport({ ...reportOf(4, [1]), events: { source: 's2', items: [{ ...event, seq: 1 }] } });
    await stored(4);
    expect(replica.drift).toHaveLength(4);
  });

  it('counts once also when it is sent to another replica again', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const backend = new FakeBackend();
    const agent = await world.agent(replica, server, backend);
    await until('the item came', async () => backend.items.has(item.meta.id));
    const events = {
      source: 's1',
      items: [{ seq: 1, type: 'warning', reason: 'ContainerRemoved', message: 'Made again', drift: true } as const],
    };
    backend.setReport({ ...running({ ...item.meta }), events });
    await eventually(replica.mirror, () => viewOf(item.meta.id)?.observed?.ready);
    await agent[Symbol.asyncDispose]();
    const other = await world.replica();
    backend.acknowledgements.length = 0;
    await world.agent(other, { id: server.id }, backend);
    await until('it was sent again', async () => backend.acknowledgements.length > 0);
    expect([replica.drift, other.drift]).toEqual([['application'], []]);
  });
});
