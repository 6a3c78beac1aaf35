import { describe, expect, it } from 'vitest';
import { operationController } from '../../../controllers/operation/reconcile.ts';
import { firstPauseMs, mostFailures } from '../../../controllers/provision/provision.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { SshFailure } from '../../../controllers/ssh/ssh-failure.ts';
import type { SshFailureCode } from '../../../controllers/ssh/ssh-failure.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { keys } from '../../../store/keys.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { provisioningOf } from '../../../store/provisioning.ts';
import { commit } from '../../../store/unit.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { assignmentState } from '../../harness/gateway-world.ts';
import { desiredState } from '../../harness/states.ts';
import { serverSettings } from '../../harness/server-settings.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';
import { standInInstallation, StandInMachine } from './stand-in-machine.ts';

const agents = { call: () => Promise.reject(new Error('No agent is called')) };
const server = id('server');

/** A server with an address and a key, and its machine. */
async function asked(
  prepare: (machine: StandInMachine, installation: ReturnType<typeof standInInstallation>) => void = () => undefined,
) {
  const clock = new FakeClock();
  const machine: StandInMachine = new StandInMachine(clock, () => rig.repo);
  const installation = standInInstallation();
  const controllers = [
    serverController({ ...serverSettings, offlineAfterMs: 45_000 }),
    operationController({ agents, machines: machine, installation }),
  ];
  prepare(machine, installation);
  const rig: Rig = await openRig({ clock, controllers });
  const unit = rig.repo.begin();
  const admin = { email: 'admin@example.org', first_name: 'A', last_name: 'B', role: 'admin' };
  unit.create('user', id('admin'), kinds.user.desired.parse(admin));
  const credential = { type: 'key', algorithm: 'ed25519', public_key: 'ssh-ed25519 A', private_key: sealed } as const;
  unit.create('ssh_key', id('key'), { name: 'the fleet', credential });
  unit.create(
    'server',
    server,
    desiredState('server', { name: 'one', ip_address: '192.0.2.7', ssh_key_id: id('key') }),
  );
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const observed = () => view.get('server', server)?.observed;
  const pass = async (ms: number): Promise<void> => {
    await rig.clock.advance(ms);
    await rig.rest();
  };
  return {
    rig,
    machine,
    installation,
    pass,
    desired: () => view.get('server', server)!.desired,
    phase: () => observed()?.phase,
    step: (type: string) => observed()?.conditions.find((one) => one.type === type),
    steps: () => Object.fromEntries((observed()?.provisioning?.steps ?? []).map((one) => [one.type, one.status])),
    operation: () => view.get('operation', provisioningOf(server)),
    change: async (change: (draft: DesiredOf<'server'>) => void) => {
      await rig.repo.change('server', server, change);
      await rig.rest();
    },
    /** Lets time pass until the agent has joined. */
    joins: async () => {
      for (let passed = 0; passed < 600 && !machine.joins.includes('key of the agent'); passed += 1) await pass(1000);
      return machine.joins.includes('key of the agent');
    },
    restart: async () => {
      await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
      await pass(limits.leader.jitterMs);
    },
    events: async () => {
      await pass(limits.events.intervalMs);
      return readEvents(rig.mirror.key(keys.events(tenant, 'server', server))?.value).map(({ reason }) => reason);
    },
    notified: () => view.list('notification').map(({ desired }) => [desired.type, desired.title]),
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}
const sealed = { $sealed: 'x', for: 'y' };
const failure = (code: SshFailureCode): SshFailure => new SshFailure(code, `It is ${code}`, 'Mend it');

describe('a server with an address and an SSH key', () => {
  it.each([
    ['http://setpoint.test', '--allow-plain-http'],
    ['https://setpoint.test', ''],
  ])('is told that plain http is allowed where its control plane uses it: %s', async (address, expected) => {
    await using it = await asked((_, installation) =>
      Object.assign(installation, { address: () => `${address}/default`, allowPlainHttp: true }),
    );
    expect(await it.joins()).toBe(true);
    expect(it.machine.plainHttp).toEqual([expected]);
  });

  it('gets engine and agent, and its agent joins by a token that was made for that', async () => {
    await using it = await asked();
    expect(await it.joins()).toBe(true);
    await it.rig.rest();
    expect(it.desired()).toMatchObject({
      agent_public_key: 'key of the agent',
      host_key: { type: 'ssh-ed25519', fingerprint: it.machine.hostKey.fingerprint },
    });
    expect([...it.machine.jobs.values()].map(({ kind }) => kind)).toEqual(['packages', 'agent']);
    expect(it.operation()?.observed).toMatchObject({ phase: 'succeeded' });
    expect(it.operation()?.observed?.provisioning).toBeUndefined();
    expect(await it.events()).toEqual(expect.arrayContaining(['HostKeyPinned', 'EngineInstalled', 'AgentInstalled']));
    const live = JSON.stringify({ replica: 'r', session: 's', machineId: 'm' });
    await it.rig.store.txn({ if: [], then: [{ put: keys.agent(tenant, server), value: live }] });
    await it.rig.rest();
    expect(it.phase()).toBe('active');
    expect(it.step('Reachable')).toBeUndefined();
    expect(it.notified()).toEqual([]);
  });

  it('shows each step while it goes on, and settles nothing before the end', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    expect(it.phase()).toBe('provisioning');
    expect(it.steps()).toEqual({
      Reachable: 'true',
      HostKeyTrusted: 'true',
      LoggedIn: 'true',
      MachineFits: 'true',
      EngineInstalled: 'unknown',
      AgentInstalled: 'unknown',
      AgentJoined: 'unknown',
    });
    expect(it.step('EngineInstalled')?.reason).toBe('Installing');
    expect(it.step('Ready')).toMatchObject({ status: 'false', reason: 'Provisioning' });
    expect(it.step('Reconciling')).toMatchObject({ message: 'its machine to get its agent' });
    await it.machine.finish();
    await it.pass(3000);
    expect(it.steps()).toMatchObject({ EngineInstalled: 'true', AgentInstalled: 'unknown' });
    await it.machine.finish();
    expect(it.machine.joins).toEqual(['key of the agent']);
    // its agent has joined before the job was seen to end
    await it.rig.rest();
    expect(await it.events()).toContain('AgentInstalled');
  });

  it('writes nothing while it waits for a job', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    await it.pass(5000);
    const before = it.rig.store.committed;
    const visits = it.machine.visits;
    await it.pass(20_000);
    expect(it.machine.visits).toBeGreaterThan(visits);
    expect(it.rig.store.committed).toBe(before);
  });

  it('is not asked twice by a second leader, which finds what the first one began', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    await it.restart();
    await it.pass(3000);
    await it.machine.finish();
    await it.pass(3000);
    await it.restart();
    await it.pass(3000);
    await it.machine.finish();
    expect(it.machine.joins).toEqual(['key of the agent']);
    expect([...it.machine.jobs.values()].map(({ kind }) => kind)).toEqual(['packages', 'agent']);
    expect(it.machine.tokens).toHaveLength(1);
  });

  it('is left alone if its agent joins by hand meanwhile', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    await it.change((draft) => void (draft.agent_public_key = 'by hand'));
    await it.pass(3000);
    expect(it.operation()?.observed?.phase).toBe('succeeded');
    const { visits } = it.machine;
    await it.pass(60_000);
    expect(it.machine.visits).toBe(visits);
  });
});

describe('a connection that is cut', () => {
  // the agent has joined after so many, of which some are a connection, a look, a job, or its answer
  const exchanges = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);

  it.each(exchanges(13))('at its exchange %i is made up for by the next attempt', async (n) => {
    let exchange = 0;
    await using it = await asked((machine) => {
      machine.before = (what) => {
        exchange += 1;
        if (exchange === n) throw failure(what === 'connect' ? 'unreachable' : 'cut');
      };
    });
    expect(await it.joins()).toBe(true);
    expect(exchange).toBeGreaterThanOrEqual(n);
    expect([...it.machine.jobs.values()].map(({ kind }) => kind)).toEqual(['packages', 'agent']);
    expect(it.machine.tokens).toHaveLength(1);
  });

  it('once at each exchange ends in an agent all the same, as each step forgives the failures before', async () => {
    const seen = new Set<string>();
    let visit = 0;
    await using it = await asked((machine) => {
      machine.before = (what) => {
        if (what === 'connect') visit = machine.jobs.size;
        const moment = `${what} with ${visit} jobs`;
        if (seen.has(moment)) return;
        seen.add(moment);
        throw failure(what === 'connect' ? 'unreachable' : 'cut');
      };
    });
    expect(await it.joins()).toBe(true);
    expect(seen.size).toBeGreaterThan(6);
  });
});

const again = 'setpoint provision one (POST /servers/:id/provision) tries again';

describe('what cannot be mended by another attempt ends in error at once, with what to do', () => {
  it.each<[SshFailureCode, step: string, reason: string, then: string]>([
    ['auth_failed', 'LoggedIn', 'LoginRefused', `; then ${again}`],
    ['not_allowed', 'Reachable', 'AddressRefused', ''],
    ['bad_key', 'LoggedIn', 'KeyUnreadable', `; then ${again}`],
    ['no_shell', 'LoggedIn', 'NoShell', `; then ${again}`],
  ])('%s', async (code, step, reason, then) => {
    await using it = await asked((machine) => {
      machine.before = () => {
        throw new SshFailure(code, `It is ${code}`, 'Mend KEY of SERVER');
      };
    });
    expect(it.phase()).toBe('error');
    const message = `It is ${code}. Mend 'the fleet' of one${then}`;
    expect(it.step(step)).toMatchObject({ status: 'false', reason, message });
    expect(it.step('Ready')).toMatchObject({ status: 'false', reason });
    expect(it.step('Stalled')).toMatchObject({ status: 'true', reason });
    expect(await it.events()).toContain(reason);
    expect(it.notified()).toEqual([['server_error', 'Server one could not be provisioned']]);
    const { visits } = it.machine;
    await it.pass(3_600_000);
    expect(it.machine.visits).toBe(visits);
    expect(it.notified()).toHaveLength(1);
  });

  it('a login that is refused, which shows that the machine answers with its host key', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    const { hostKey } = it.machine;
    it.machine.before = () => {
      throw new SshFailure('auth_failed', 'It is refused', 'Mend it', { hostKey });
    };
    await it.pass(3000);
    expect(Object.entries(it.steps())).toEqual([
      ['Reachable', 'true'],
      ['HostKeyTrusted', 'true'],
      ['LoggedIn', 'false'],
      ['MachineFits', 'unknown'],
      ['EngineInstalled', 'unknown'],
      ['AgentInstalled', 'unknown'],
      ['AgentJoined', 'unknown'],
    ]);
  });

  it('another host key than the given one, which shows that the machine answers', async () => {
    await using it = await asked((machine) => {
      machine.before = () => {
        throw new SshFailure('host_key_changed', 'It is another', 'Trust it', { hostKey: machine.hostKey });
      };
    });
    expect(it.steps()).toMatchObject({ Reachable: 'true', HostKeyTrusted: 'false', LoggedIn: 'unknown' });
    expect(it.step('LoggedIn')?.message).toContain('waits for the steps before');
  });

  it.each<[string, object, step: string, reason: string]>([
    ['no sudo', { root: undefined, sudo: 'missing' }, 'MachineFits', 'MachineUnfit'],
    ['no space', { disk_free_kib: 1024 }, 'MachineFits', 'MachineUnfit'],
    ['another system', { os: 'alpine', os_name: 'Alpine', packages: 'apk' }, 'MachineFits', 'MachineUnfit'],
    ['another processor', { machine: 'riscv64' }, 'MachineFits', 'MachineUnfit'],
    ['the agent of another server', { agent_server: id('other') }, 'MachineFits', 'OtherAgent'],
    ['an engine that is too old', { docker: '19.3.1', docker_client: '19.3.1' }, 'EngineInstalled', 'EngineTooOld'],
  ])('%s', async (_, facts, step, reason) => {
    await using it = await asked((machine) => void Object.assign(machine.facts, facts));
    expect(it.phase()).toBe('error');
    expect(it.step(step)).toMatchObject({ status: 'false', reason });
    expect(it.step('Reachable')?.status).toBe('true');
    expect(it.machine.jobs.size).toBe(0);
  });

  it('the agent of a server that was deleted, which removes itself: it is tried again', async () => {
    await using it = await asked((machine) => {
      machine.facts.agent_server = id('deleted');
      machine.facts.agent_leaves = 'yes';
    });
    expect(it.phase()).toBe('provisioning');
    expect(it.step('MachineFits')).toMatchObject({ status: 'false', reason: 'AgentLeaves' });
    expect(it.machine.jobs.size).toBe(0);
    delete it.machine.facts.agent_server;
    delete it.machine.facts.agent_leaves;
    expect(await it.joins()).toBe(true);
  });

  it.each<['absent' | 'damaged', reason: string]>([
    ['absent', 'NoRelease'],
    ['damaged', 'ReleaseDamaged'],
  ])('a release of the agent that is %s: the machine is not even reached', async (fault, reason) => {
    await using it = await asked((_, installation) => void (installation.release = { fault }));
    expect(it.phase()).toBe('error');
    expect(it.step('AgentInstalled')).toMatchObject({ status: 'false', reason });
    expect(it.step('AgentInstalled')?.message).toContain('make release');
    expect(it.machine.visits).toBe(0);
    it.installation.release = standInInstallation().release;
    await it.change((draft) => void (draft.provision_attempt = id('attempt')));
    expect(await it.joins()).toBe(true);
  });

  it.each([
    ['http://127.0.0.1:7070', 'AddressLoopback', 'SETPOINT_PUBLIC_URL'],
    ['http://setpoint.test', 'PlainHttp', 'SETPOINT_ALLOW_PLAIN_HTTP=true'],
  ])('a control plane at %s: the machine is not even reached', async (address, reason, setting) => {
    await using it = await asked((_, installation) => void (installation.address = () => `${address}/default`));
    expect(it.phase()).toBe('error');
    expect(it.step('AgentInstalled')).toMatchObject({ status: 'false', reason });
    expect(it.step('AgentInstalled')?.message).toContain(setting);
    expect(it.machine.visits).toBe(0);
  });

  it('another host key, until it is trusted', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    it.machine.hostKey = { type: 'ssh-ed25519', fingerprint: `SHA256:${'b'.repeat(43)}` };
    await it.pass(3000);
    expect(it.phase()).toBe('error');
    expect(it.step('HostKeyTrusted')).toMatchObject({ status: 'false', reason: 'HostKeyChanged' });
    await it.machine.finish();
    it.machine.isSlow = false;
    await it.change((draft) => {
      draft.host_key = { fingerprint: it.machine.hostKey.fingerprint };
      draft.provision_attempt = id('trusted');
    });
    expect(await it.joins()).toBe(true);
  });
});

describe('a machine that does not answer', () => {
  const silent = (machine: StandInMachine): void => {
    machine.before = () => {
      throw failure('unreachable');
    };
  };

  it('is tried five times, at longer and longer intervals', async () => {
    await using it = await asked(silent);
    for (let n = 1; n < mostFailures; n += 1) {
      expect([it.machine.visits, it.phase()]).toEqual([n, 'provisioning']);
      expect(it.step('Reachable')).toMatchObject({ status: 'false', reason: 'Unreachable' });
      await it.pass(firstPauseMs * 2 ** (n - 1) - 1000);
      expect(it.machine.visits).toBe(n);
      await it.pass(1200);
    }
    expect([it.machine.visits, it.phase()]).toEqual([mostFailures, 'error']);
  });

  it.each<[string, (draft: DesiredOf<'server'>) => void]>([
    ['another address', (draft) => void (draft.ip_address = '192.0.2.8')],
    ['another port', (draft) => void (draft.port = 2222)],
    ['another user', (draft) => void (draft.username = 'ops')],
    ['another attempt', (draft) => void (draft.provision_attempt = id('attempt'))],
  ])('is tried again from the start with %s', async (_, change) => {
    await using it = await asked(silent);
    await it.pass(3_600_000);
    expect(it.phase()).toBe('error');
    it.machine.before = () => undefined;
    it.machine.isSlow = true;
    await it.change(change);
    expect(it.phase()).toBe('provisioning');
    expect(it.step('Stalled')).toBeUndefined();
    it.machine.isSlow = false;
    await it.machine.finish();
    expect(await it.joins()).toBe(true);
  });

  it('is tried again when the secret of its key is replaced', async () => {
    await using it = await asked(silent);
    await it.pass(3_600_000);
    it.machine.before = () => undefined;
    await it.rig.repo.change('ssh_key', id('key'), (draft) => {
      if (draft.credential.type === 'key') draft.credential.public_key = 'ssh-ed25519 B';
    });
    await it.rig.rest();
    expect(await it.joins()).toBe(true);
  });

  it('is not tried again when the key is merely sealed anew or renamed', async () => {
    await using it = await asked(silent);
    await it.pass(3_600_000);
    const { visits } = it.machine;
    await it.rig.repo.change('ssh_key', id('key'), (draft) => {
      draft.name = 'renamed';
      if (draft.credential.type === 'key') draft.credential.private_key = { $sealed: 'z', for: 'y' };
    });
    await it.rig.rest();
    await it.pass(60_000);
    expect([it.machine.visits, it.phase()]).toEqual([visits, 'error']);
  });

  it('is not asked for anything once it has no address', async () => {
    await using it = await asked(silent);
    await it.change((draft) => void delete draft.ip_address);
    expect([it.phase(), it.step('Ready')?.reason]).toEqual(['provisioning', 'AwaitingAgent']);
    const { visits } = it.machine;
    await it.pass(600_000);
    expect(it.machine.visits).toBe(visits);
  });
});

describe('a job that fails', () => {
  it('is shown with what it said but the secret of the login, and followed by another one', async () => {
    const says = 'apt-get update failed: E: 2030-01-01T00:00:00Z no route for hunter2';
    let ended = 0;
    await using it = await asked((machine) => {
      machine.password = 'hunter2';
      machine.ends = (kind) => (kind === 'packages' && (ended += 1) === 1 ? { code: 1, says } : undefined);
    });
    expect(it.step('EngineInstalled')).toMatchObject({ status: 'false', reason: 'InstallationFailed' });
    expect(it.step('EngineInstalled')?.message).toContain('apt-get update failed: E: … no route for ***');
    expect(await it.joins()).toBe(true);
    expect([...it.machine.jobs.values()].map(({ kind }) => kind)).toEqual(['packages', 'packages', 'agent']);
  });

  it('takes its token with it: the next one has another, and the one before opens nothing', async () => {
    let ended = 0;
    await using it = await asked((machine) => {
      machine.ends = (kind) => (kind === 'agent' && (ended += 1) === 1 ? { code: 1, says: 'Not fetched' } : undefined);
    });
    await it.pass(3000);
    expect(it.step('AgentInstalled')).toMatchObject({ status: 'false', reason: 'InstallationFailed' });
    const [leaked] = it.machine.tokens;
    expect(await it.machine.join(leaked!, 'key of a thief')).toBe(false);
    expect(await it.joins()).toBe(true);
    expect(new Set(it.machine.tokens).size).toBe(2);
    expect(await it.machine.join(leaked!, 'key of a thief')).toBe(false);
    expect(await it.machine.join(it.machine.tokens[1]!, 'key of a thief')).toBe(false);
  });

  it('leaves the join token of the user alone, which is void once an agent has joined', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    await it.change((draft) => {
      draft.join_token_hash = 'a'.repeat(64);
      draft.join_token_expires_at = '2031-01-01T00:00:00.000Z';
    });
    await it.pass(5000);
    expect(it.desired().join_token_hash).toBe('a'.repeat(64));
    it.machine.isSlow = false;
    await it.machine.finish();
    expect(await it.joins()).toBe(true);
    await it.rig.rest();
    expect(it.desired().join_token_hash).toBeUndefined();
  });

  it('five times ends in error, and its last token opens nothing', async () => {
    await using it = await asked((machine) => {
      machine.ends = (kind) => (kind === 'agent' ? { code: 1, says: 'No' } : undefined);
    });
    await it.pass(600_000);
    expect(it.phase()).toBe('error');
    expect(it.machine.tokens).toHaveLength(mostFailures);
    for (const token of it.machine.tokens) expect(await it.machine.join(token, 'key of a thief')).toBe(false);
  });
});

it('shows what a job says that goes on', async () => {
  await using it = await asked((machine) => (machine.isSlow = true));
  const message = 'The Docker engine and what else is missing is installed';
  await it.pass(5000);
  expect(it.step('EngineInstalled')).toMatchObject({ status: 'unknown', reason: 'Installing', message });
  it.machine.says = 'Waits for apt-get (process 7), which has the package manager';
  await it.pass(5000);
  expect(it.step('EngineInstalled')?.message).toBe(`${message}: ${it.machine.says}`);
});

it('has 30 minutes, and then says what it did not get over', async () => {
  await using it = await asked((machine) => (machine.isSlow = true));
  await it.pass(30 * 60_000 - 5000);
  expect(it.phase()).toBe('provisioning');
  await it.pass(10_000);
  expect(it.phase()).toBe('error');
  expect(it.step('EngineInstalled')).toMatchObject({ status: 'false', reason: 'DeadlineExceeded' });
  expect(it.step('EngineInstalled')?.message).toContain('It did not end within 30 minutes');
});

it('a server that is deleted meanwhile is not reached any more', async () => {
  await using it = await asked((machine) => (machine.isSlow = true));
  const unit = it.rig.repo.begin();
  unit.requestDelete((await it.rig.repo.get('server', server))!);
  await commit(unit);
  await it.rig.rest();
  const { visits } = it.machine;
  await it.pass(60_000);
  expect(it.machine.visits).toBe(visits);
});

describe('a server that is deleted', () => {
  const remove = async (it: Awaited<ReturnType<typeof asked>>): Promise<void> => {
    const unit = it.rig.repo.begin();
    unit.requestDelete((await it.rig.repo.get('server', server))!);
    await commit(unit);
    await it.rig.rest();
    expect(it.rig.mirror.tenant(tenant).get('server', server)).toBeUndefined();
  };
  const left = [['server_agent_left', 'Server one was deleted without its agent']];

  it('while its agent is installed is told to admins, as nothing removes that agent', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    await it.machine.finish();
    await it.pass(3000);
    expect(it.step('AgentInstalled')?.reason).toBe('Installing');
    await remove(it);
    expect(it.notified()).toEqual(left);
    const [note] = it.rig.mirror.tenant(tenant).list('notification');
    expect(note?.desired.message).toMatch(/as it was being installed.*install\.sh \| sh -s -- --uninstall$/);
  });

  it('after the installation of its agent failed is told, too', async () => {
    await using it = await asked((machine) => {
      machine.ends = (kind) => (kind === 'agent' ? { code: 1, says: 'No' } : undefined);
    });
    await it.pass(600_000);
    expect(it.phase()).toBe('error');
    const before = it.notified();
    await remove(it);
    expect(it.notified()).toEqual(expect.arrayContaining([...before, ...left]));
  });

  it('is told also once what was placed there is gone, and the attempt forgotten', async () => {
    await using it = await asked((machine) => {
      machine.ends = (kind) => (kind === 'agent' ? { code: 1, says: 'No' } : undefined);
    });
    await it.pass(600_000);
    expect(it.phase()).toBe('error');
    const unit = it.rig.repo.begin();
    unit.create('assignment', id('instance'), assignmentState(server));
    unit.requestDelete((await it.rig.repo.get('operation', provisioningOf(server)))!);
    await commit(unit);
    await it.rig.rest();
    expect(it.operation()).toBeUndefined();
    await remove(it);
    expect(it.notified()).toEqual(expect.arrayContaining(left));
  });

  it('before its agent is installed goes without a word', async () => {
    await using it = await asked((machine) => (machine.isSlow = true));
    expect(it.step('EngineInstalled')?.reason).toBe('Installing');
    await remove(it);
    expect(it.notified()).toEqual([]);
  });
});

it('the first host key is in the audit log, as a change by a user would be', async () => {
  await using it = await asked((machine) => (machine.isSlow = true));
  const { entries } = await it.rig.store.list(keys.allAuditPending(tenant));
  expect(entries.map(({ value }) => JSON.parse(value))).toEqual([
    {
      v: 1,
      at: expect.any(String),
      route: 'controller provision',
      result: 'ok',
      tenant,
      objects: [
        {
          kind: 'server',
          id: server,
          name: 'one',
          action: 'change',
          fields: ['host_key.type', 'host_key.fingerprint'],
        },
      ],
    },
  ]);
});
