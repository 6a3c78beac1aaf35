import { describe, expect, it } from 'vitest';
import { agentCapabilities } from '../../../agent-protocol/messages.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aServer } from '../../harness/objects.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';

const offlineAfterMs = 45_000;
const controllers = [serverController({ offlineAfterMs })];

/** A server whose agent joined, and what is to be seen of it. */
async function joined(rig: Rig) {
  const server = aServer({ agent_public_key: 'key' });
  const made = rig.repo.begin();
  made.create(
    'user',
    id('admin'),
    kinds.user.desired.parse({ email: 'admin@example.org', first_name: 'A', last_name: 'B', role: 'admin' }),
  );
  made.create('server', server.meta.id, server.desired);
  await commit(made);
  const live = keys.agent(tenant, server.meta.id);
  const view = rig.mirror.tenant(tenant);
  const observed = () => view.get('server', server.meta.id)?.observed;
  return {
    id: server.meta.id,
    phase: () => observed()?.phase,
    condition: (type: string) => observed()?.conditions.find((it) => it.type === type),
    notified: () => view.list('notification').map(({ desired }) => desired.type),
    events: async () => {
      await rig.clock.advance(limits.events.intervalMs);
      return readEvents(rig.mirror.key(keys.events(tenant, 'server', server.meta.id))?.value).map((it) => it.reason);
    },
    connect: async (agent: object = {}) => {
      const value = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', ...agent });
      await rig.store.txn({ if: [], then: [{ put: live, value }] });
      await rig.rest();
    },
    leave: async () => {
      await rig.store.txn({ if: [], then: [{ delete: live }] });
      await rig.rest();
    },
  };
}

async function pass(rig: Rig, ms: number): Promise<void> {
  await rig.clock.advance(ms);
  await rig.rest();
}

it('is patient with an agent that went away, anew in each term of a leader', async () => {
  await using rig = await openRig({ controllers });
  const { connect, leave, phase } = await joined(rig);
  await connect();
  await leave();
  await pass(rig, offlineAfterMs - 1000);
  expect(phase()).toBe('active');
  await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
  await pass(rig, limits.leader.jitterMs);
  await pass(rig, offlineAfterMs - 1000);
  expect(phase()).toBe('active');
  await pass(rig, 1000);
  expect(phase()).toBe('offline');
});

describe('a server whose container engine cannot be used', () => {
  const trouble = { reason: 'EngineNotRunning', message: 'The container engine does not answer: start it' };

  it('is in error with what to do, and active again by itself', async () => {
    await using rig = await openRig({ controllers });
    const { connect, phase, condition, events, notified } = await joined(rig);
    await connect();
    await connect({ engineTrouble: trouble });
    expect(phase()).toBe('error');
    expect(condition('EngineReady')).toMatchObject({ status: 'false', ...trouble });
    await connect();
    expect(phase()).toBe('active');
    expect(condition('EngineReady')?.status).toBe('true');
    expect(await events()).toEqual(expect.arrayContaining(['EngineNotRunning', 'EngineAnswers']));
    expect(notified().toSorted()).toEqual(['server_error', 'server_online']);
  });

  it('is offline once its agent has been away for as long as any other', async () => {
    await using rig = await openRig({ controllers });
    const { connect, leave, phase, condition } = await joined(rig);
    await connect({ engineTrouble: trouble });
    await leave();
    await pass(rig, offlineAfterMs - 1);
    expect(phase()).toBe('error');
    expect(condition('EngineReady')?.status).toBe('unknown');
    await pass(rig, 1);
    expect(phase()).toBe('offline');
  });
});

it('names what its agent does not know, until the agent is upgraded', async () => {
  await using rig = await openRig({ controllers });
  const { connect, condition } = await joined(rig);
  await connect({ agentVersion: '0.1.0', capabilities: ['configurations'] });
  expect(condition('AgentTooOld')).toMatchObject({ status: 'true', reason: 'AgentOfEarlierRelease' });
  expect(condition('AgentTooOld')?.message).toMatch(
    /version 0\.1\.0, cannot keep images for rollbacks, build an earlier commit, open terminals, run instances with mounts or several ports, keep volumes, keep metrics[^:]*: upgrade/,
  );
  await connect({ agentVersion: '0.2.0', capabilities: [...agentCapabilities, 'of.tomorrow'] });
  expect(condition('AgentTooOld')).toBeUndefined();
  // taken in by a replica that keeps no capabilities: nothing is known of them
  await connect({ agentVersion: '0.1.0' });
  expect(condition('AgentTooOld')).toBeUndefined();
});

it('says what is held since the store was rewound and how to release it, until that is confirmed', async () => {
  await using rig = await openRig({ controllers });
  const { id: server, connect, condition } = await joined(rig);
  await connect();
  const hold = async (confirmed: boolean): Promise<void> => {
    await rig.store.txn({ if: [], then: [putHeldRemovals(tenant, server, { held: 3, confirmed })] });
    await rig.rest();
  };
  expect(condition('RemovalsHeld')).toBeUndefined();
  await hold(false);
  expect(condition('RemovalsHeld')).toMatchObject({ status: 'true', reason: 'StoreRewound' });
  expect(condition('RemovalsHeld')?.message).toMatch(/3 of the instances.*confirm-removals/);
  await hold(true);
  expect(condition('RemovalsHeld')).toBeUndefined();
});
