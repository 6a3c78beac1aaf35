import { describe, expect, it } from 'vitest';
import { agentCapabilities } from '../../../agent-protocol/messages.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { putConnections, withRefusal } from '../../../store/connections.ts';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aServer } from '../../harness/objects.ts';
import { serverSettings } from '../../harness/server-settings.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';

const { offlineAfterMs } = serverSettings;
const controllers = [serverController(serverSettings)];

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

it('is offline with what to do, if its agent knows a key that the store lacks', async () => {
  await using rig = await openRig({ controllers });
  const { id: server, connect, leave, phase, condition, events } = await joined(rig);
  await connect();
  await leave();
  await pass(rig, offlineAfterMs);
  expect(condition('Ready')).toMatchObject({ reason: 'Offline' });
  const refused = withRefusal({ session: 's', again: [] }, 'It is unknown', rig.clock.now());
  await rig.store.txn({ if: [], then: [putConnections(tenant, server, refused)] });
  await rig.rest();
  expect(phase()).toBe('offline');
  expect(condition('Ready')).toMatchObject({
    status: 'false',
    reason: 'AgentKnowsAnotherKey',
    message: expect.stringContaining('`setpoint join '),
  });
  expect(await events()).toContain('AgentKnowsAnotherKey');
  await connect();
  expect(condition('Ready')).toMatchObject({ status: 'true', reason: 'Connected' });
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

it('with rules that something took from its engine has a condition, until they are back', async () => {
  await using rig = await openRig({ controllers });
  const { connect, phase, condition } = await joined(rig);
  await connect({ engineWarnings: [{ reason: 'RulesMissing', message: 'Rules were removed: restart docker' }] });
  expect(phase()).toBe('active');
  expect(condition('EngineRulesMissing')).toMatchObject({
    status: 'true',
    reason: 'RulesMissing',
    message: 'Rules were removed: restart docker',
  });
  await connect();
  expect(condition('EngineRulesMissing')).toBeUndefined();
});

it('SEC-55 tells admins once a day at most that several agents have its identity', async () => {
  await using rig = await openRig({ controllers });
  const { connect, condition, events, notified } = await joined(rig);
  await connect();
  expect(condition('AgentIdentityConflict')).toBeUndefined();
  await connect({ conflict: true });
  expect(condition('AgentIdentityConflict')).toMatchObject({ status: 'true', reason: 'SeveralMachines' });
  await connect({ conflict: true, session: 'of the copy' });
  expect(notified()).toEqual(['server_identity_conflict']);
  expect(await events()).toContain('SeveralMachines');
  // they pause
  await connect();
  expect(condition('AgentIdentityConflict')).toBeUndefined();
  await connect({ conflict: true });
  expect(notified()).toEqual(['server_identity_conflict']);
  await connect();
  await pass(rig, 24 * 3_600_000);
  await connect({ conflict: true });
  expect(notified()).toEqual(['server_identity_conflict', 'server_identity_conflict']);
});

it('names what its agent does not know, until the agent is upgraded', async () => {
  await using rig = await openRig({ controllers });
  const { connect, condition } = await joined(rig);
  await connect({ agentVersion: '0.1.0', capabilities: ['configurations'] });
  expect(condition('AgentTooOld')).toMatchObject({ status: 'true', reason: 'AgentOfEarlierRelease' });
  expect(condition('AgentTooOld')?.message).toMatch(
    /version 0\.1\.0, cannot log in to registries, keep images for rollbacks, keep the logs of builds as long as their deployments, build an earlier commit, give secrets to builds, read private repositories, generate Dockerfiles, fetch submodules, read compose files in repositories, serve functions, run commands once, back up databases, back up and restore volumes, recover databases to any instant, restore databases, import dumps into databases, open terminals, end calls whose callers left, run instances with mounts or several ports, run instances with a working directory or a first process of their own, run instances with capabilities that were granted to them, mount volumes in functions, keep volumes, copy Docker volumes, lead domains to applications, keep metrics[^:]*: upgrade/,
  );
  // each capability has words
  expect(condition('AgentTooOld')?.message).not.toMatch(/, [,:]/);
  await connect({ agentVersion: '0.2.0', capabilities: [...agentCapabilities, 'of.tomorrow'] });
  expect(condition('AgentTooOld')).toBeUndefined();
  // taken in by a replica that keeps no capabilities: nothing is known of them
  await connect({ agentVersion: '0.1.0' });
  expect(condition('AgentTooOld')).toBeUndefined();
});

describe('an update of its agent', () => {
  const requested_at = '2030-01-01T00:00:00.000Z';
  const release = '1.1.0';
  const releasing = [serverController({ ...serverSettings, agentRelease: async () => release })];
  const old = { agentVersion: '1.0.0', capabilities: [...agentCapabilities, 'update'] };
  const failure = { version: '1.1.0', requestedAt: requested_at, reason: 'NotTrusted', message: 'Build it anew' };

  async function asked(rig: Rig, at = requested_at) {
    const all = await joined(rig);
    const ask = async (time: string): Promise<void> => {
      await rig.repo.change('server', all.id, (draft) => {
        draft.agent_update = { version: '1.1.0', requested_at: time };
      });
      await rig.rest();
    };
    await all.connect(old);
    await ask(at);
    return { ...all, ask };
  }

  it('is under way, and done once the agent runs the version or a later one', async () => {
    await using rig = await openRig({ controllers });
    const { connect, leave, condition, events, notified } = await asked(rig);
    expect(condition('AgentUpdated')).toMatchObject({ status: 'false', reason: 'Updating' });
    await leave();
    expect(condition('AgentUpdated')).toMatchObject({ status: 'false', reason: 'AgentAway' });
    await connect({ ...old, agentVersion: '1.1.0' });
    expect(condition('AgentUpdated')).toMatchObject({ status: 'true', message: 'Its agent runs version 1.1.0' });
    expect(await events()).toContain('AgentUpdated');
    await connect({ ...old, agentVersion: '1.2.0' });
    expect(condition('AgentUpdated')).toMatchObject({ status: 'true', message: 'Its agent runs version 1.2.0' });
    await leave();
    expect(condition('AgentUpdated')?.status).toBe('true');
    expect(notified()).toEqual([]);
    await connect(old);
    expect(condition('AgentUpdated')).toMatchObject({ status: 'false', reason: 'PutBack' });
  });

  it('that failed is shown and notified once, also while the agent is away, until it is asked for anew', async () => {
    await using rig = await openRig({ controllers });
    const { connect, leave, ask, condition, events, notified } = await asked(rig);
    const shown = {
      status: 'true',
      reason: 'NotTrusted',
      message: expect.stringMatching(/version 1\.1\.0.*Build it anew/),
    };
    await connect({ ...old, updateFailure: failure });
    expect(condition('AgentUpdateFailed')).toMatchObject(shown);
    expect(condition('AgentUpdated')).toBeUndefined();
    expect(await events()).toContain('NotTrusted');
    await leave();
    expect(condition('AgentUpdateFailed')).toMatchObject(shown);
    await connect(old); // it does not know of it any more
    expect(condition('AgentUpdateFailed')).toMatchObject(shown);
    await connect({ ...old, updateFailure: failure });
    expect(notified()).toEqual(['server_update_failed']);
    await ask('2030-01-01T00:10:00.000Z');
    expect(condition('AgentUpdateFailed')).toBeUndefined();
    expect(condition('AgentUpdated')).toMatchObject({ reason: 'Updating' });
    await connect({ ...old, updateFailure: { ...failure, requestedAt: '2030-01-01T00:10:00.000Z' } });
    expect(notified()).toEqual(['server_update_failed', 'server_update_failed']);
    await connect({ ...old, agentVersion: '1.1.0' });
    expect(condition('AgentUpdateFailed')).toBeUndefined();
    expect(condition('AgentUpdated')?.status).toBe('true');
  });

  it('that came back and cannot update itself says how it is updated', async () => {
    await using rig = await openRig({ controllers: releasing });
    const { connect, condition } = await asked(rig);
    await connect({ ...old, capabilities: ['configurations'] });
    expect(condition('AgentUpdated')).toMatchObject({ status: 'false', reason: 'CannotUpdateItself' });
    expect(condition('AgentUpdated')?.message).toMatch(/1\.0\.0.*1\.1\.0.*install\.sh/);
  });

  it('is offered where the control plane has a later version, with how', async () => {
    await using rig = await openRig({ controllers: releasing });
    const { connect, condition } = await joined(rig);
    await connect(old);
    expect(condition('AgentUpdateAvailable')).toMatchObject({ status: 'true', reason: 'LaterRelease' });
    expect(condition('AgentUpdateAvailable')?.message).toMatch(/1\.0\.0.*1\.1\.0.*setpoint update-agent one/);
    await connect({ ...old, capabilities: ['configurations'] });
    expect(condition('AgentUpdateAvailable')?.message).toMatch(/install\.sh/);
    expect(condition('AgentTooOld')?.message).toMatch(/: upgrade it to 1\.1\.0, by the script/);
    for (const agentVersion of ['1.1.0', '1.2.0', undefined, 'of.mine']) {
      await connect({ ...old, agentVersion });
      expect(condition('AgentUpdateAvailable'), agentVersion).toBeUndefined();
    }
  });

  it('is offered once the folder of the release has a later one, without a restart, and by another leader at once', async () => {
    let release = '1.0.0';
    const settings = { ...serverSettings, agentRelease: async () => release };
    await using rig = await openRig({ controllers: [serverController(settings)] });
    const { connect, condition } = await joined(rig);
    await connect(old);
    expect(condition('AgentUpdateAvailable')).toBeUndefined();
    release = '1.1.0';
    const { resyncMs, resyncJitter } = limits.reconcile;
    await pass(rig, resyncMs * (1 + resyncJitter));
    expect(condition('AgentUpdateAvailable')?.message).toContain('1.1.0');

    release = '1.2.0';
    await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
    await pass(rig, limits.leader.jitterMs);
    expect(condition('AgentUpdateAvailable')?.message).toContain('1.2.0');
  });

  it('is not offered while it is under way, and again once it failed', async () => {
    await using rig = await openRig({ controllers: releasing });
    const { connect, condition } = await asked(rig);
    expect(condition('AgentUpdateAvailable')).toBeUndefined();
    await connect({ ...old, updateFailure: failure });
    expect(condition('AgentUpdateAvailable')?.status).toBe('true');
  });
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
