import { describe, expect, it } from 'vitest';
import { CallError } from '../../../agent-protocol/call-error.ts';
import { farewellLimits } from '../../../controllers/server/farewell.ts';
import type { AgentCalls } from '../../../controllers/runtime/agent-calls.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { keys } from '../../../store/keys.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aServer } from '../../harness/objects.ts';
import { serverSettings } from '../../harness/server-settings.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';

/** `agrees`, or the code of an error. */
type Answer = string;

/** A server that was deleted, whose agent answers as `answer` says at that moment. */
async function deleted(
  rig: Rig,
  agent: object | undefined,
  { joined = true, ...more }: { joined?: boolean; agent_update?: DesiredOf<'server'>['agent_update'] } = {},
) {
  const server = aServer({ ...(joined && { agent_public_key: 'key' }), ...more });
  const made = rig.repo.begin();
  const user = { email: 'admin@example.org', first_name: 'A', last_name: 'B', role: 'admin' };
  made.create('user', id('admin'), kinds.user.desired.parse(user));
  made.create('server', server.meta.id, server.desired);
  await commit(made);
  const live = keys.agent(tenant, server.meta.id);
  const connect = async (about: object): Promise<void> => {
    const value = JSON.stringify({ replica: 'r', session: 's', machineId: 'm', ...about });
    await rig.store.txn({ if: [], then: [{ put: live, value }] });
    await rig.rest();
  };
  if (agent !== undefined) await connect(agent);
  await rig.rest();
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('server', server.meta.id))!);
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  return {
    connect,
    isGone: () => view.get('server', server.meta.id) === undefined,
    message: () =>
      view.get('server', server.meta.id)?.observed?.conditions.find(({ type }) => type === 'Ready')?.message,
    told: () => view.list('notification').map(({ desired }) => desired),
    pass: async (ms: number) => {
      await rig.clock.advance(ms);
      await rig.rest();
    },
  };
}

/** The controller with an agent that answers; `asked` counts the questions. */
function withAgent(answer: () => Answer) {
  let asked = 0;
  const agents: AgentCalls = {
    call: async (_tenant, _server, { method }) => {
      expect(method).toBe('uninstall');
      asked++;
      const said = answer();
      if (said !== 'agrees') throw new CallError(said, 'It removes 2 instances');
      return {};
    },
  };
  const controllers = [serverController({ ...serverSettings, agents })];
  return { controllers, asked: () => asked };
}

const able = { capabilities: ['uninstall'] };

describe('a server that is deleted', () => {
  it('goes at once where no agent ever joined', async () => {
    const agent = withAgent(() => 'agrees');
    await using rig = await openRig(agent);
    const it = await deleted(rig, undefined, { joined: false });
    expect(it.isGone()).toBe(true);
    expect(it.told()).toEqual([]);
  });

  it('goes when its agent agrees to remove itself', async () => {
    const agent = withAgent(() => 'agrees');
    await using rig = await openRig(agent);
    const it = await deleted(rig, able);
    expect(it.isGone()).toBe(true);
    expect(agent.asked()).toBe(1);
    expect(it.told()).toEqual([]);
  });

  it('waits for an agent that removes what ran there, for ten minutes at most', async () => {
    const agent = withAgent(() => 'busy');
    await using rig = await openRig(agent);
    const it = await deleted(rig, able);
    await it.pass(farewellLimits.silentMs * 2);
    expect(it.isGone()).toBe(false);
    expect(it.message()).toBe('Its agent is to remove itself from its machine: It removes 2 instances');
    await it.pass(farewellLimits.busyMs);
    expect(it.isGone()).toBe(true);
    expect(it.told()).toMatchObject([
      {
        type: 'server_agent_left',
        severity: 'warning',
        message: expect.stringMatching(
          /keeps its volumes .*label=setpoint\.server=\S+\)\. .*: setpoint-agent uninstall; .*: curl -fsSL https:\/\/setpoint\.test\/install\.sh \| sh -s -- --uninstall$/,
        ),
      },
    ]);
  });

  it('is asked for by the next leader, too, and then goes', async () => {
    let answer: Answer = 'busy';
    const agent = withAgent(() => answer);
    await using rig = await openRig(agent);
    const it = await deleted(rig, able);
    await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
    answer = 'agrees';
    await it.pass(limits.leader.jitterMs + farewellLimits.againMs);
    expect(it.isGone()).toBe(true);
    expect(it.told()).toEqual([]);
  });

  it.each<[string, Answer]>([
    ['gives no answer', 'timeout'],
    ['cannot reach its engine', 'runtime_unavailable'],
  ])('goes without an agent that %s for a minute', async (_, answer) => {
    await using rig = await openRig(withAgent(() => answer));
    const it = await deleted(rig, able);
    await it.pass(farewellLimits.silentMs - 2000);
    expect(it.isGone()).toBe(false);
    await it.pass(4000);
    expect(it.isGone()).toBe(true);
    expect(it.told()).toHaveLength(1);
  });

  it.each<[string, object, Answer]>([
    ['is of an earlier release', { capabilities: ['diagnose'] }, 'agrees'],
    ['does not say what it can', {}, 'agrees'],
    ['refuses', able, 'forbidden'],
    ['does not know the order', able, 'unsupported'],
  ])('goes at once without an agent that %s', async (_, about, answer) => {
    await using rig = await openRig(withAgent(() => answer));
    const it = await deleted(rig, about);
    expect(it.isGone()).toBe(true);
    expect(it.told()).toHaveLength(1);
  });

  describe('while its agent tries a release that does not connect', () => {
    const { silentMs, updatingMs } = farewellLimits;
    const begun = async (rig: Rig, agoMs: number) => {
      const requested_at = new Date(rig.clock.now().getTime() - agoMs).toISOString();
      return deleted(rig, undefined, { agent_update: { version: '7.0.0', requested_at } });
    };

    it('is held until the agent has gone back to the release before', async () => {
      await using rig = await openRig(withAgent(() => 'agrees'));
      const it = await begun(rig, 0);
      expect(it.message()).toContain('it tries another release');
      await it.pass(updatingMs - 1000);
      expect(it.isGone()).toBe(false);
      await it.connect(able);
      expect(it.isGone()).toBe(true);
      expect(it.told()).toEqual([]);
    });

    it('goes without it in the end', async () => {
      await using rig = await openRig(withAgent(() => 'agrees'));
      const it = await begun(rig, 0);
      await it.pass(updatingMs);
      expect(it.isGone()).toBe(true);
      expect(it.told()).toHaveLength(1);
    });

    it('is not held for an update that was asked for long ago', async () => {
      await using rig = await openRig(withAgent(() => 'agrees'));
      const it = await begun(rig, farewellLimits.updateMs);
      await it.pass(silentMs);
      expect(it.isGone()).toBe(true);
    });
  });

  it('is held for an agent that is away, and goes when it comes back', async () => {
    const agent = withAgent(() => 'agrees');
    await using rig = await openRig(agent);
    const it = await deleted(rig, undefined);
    await it.pass(farewellLimits.silentMs - 1000);
    expect(it.isGone()).toBe(false);
    await it.connect(able);
    expect(it.isGone()).toBe(true);
    expect(it.told()).toEqual([]);
  });
});
