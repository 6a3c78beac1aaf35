import { describe, expect, it, test } from 'vitest';
import { provisioningSteps } from '../../../store/kinds/provisioning-step.ts';
import type { StepName } from '../../../store/kinds/provisioning-step.ts';
import { jobStateOf, looksAt, starts } from '../../../controllers/provision/job.ts';
import { planOf } from '../../../controllers/provision/plan.ts';
import { decisiveStep, faultOf, stepsOf, triesAgain } from '../../../controllers/provision/steps.ts';
import type { Facts } from '../../../controllers/ssh/facts.ts';
import { hiding } from '../../../controllers/ssh/login.ts';
import { SshFailure } from '../../../controllers/ssh/ssh-failure.ts';
import type { SshFailureCode } from '../../../controllers/ssh/ssh-failure.ts';

const at = Date.parse('2030-01-01T00:00:00Z');
const bare: Facts = {
  os: 'debian',
  os_version: '12',
  os_name: 'Debian GNU/Linux 12',
  kernel: 'Linux',
  machine: 'x86_64',
  root: 'yes',
  init: 'systemd',
  packages: 'apt-get',
  clock: at / 1000,
  disk_free_kib: 50 * 1024 ** 2,
  memory_kib: 4 * 1024 ** 2,
};
const complete: Facts = {
  ...bare,
  docker: '26.1.5',
  docker_client: '26.1.5',
  git: '2.39.5',
  iptables: 'yes',
  fetch: 'yes',
};
const plan = (facts: Facts, otherServer?: string) =>
  planOf({ hostKey: { type: 'ssh-ed25519', fingerprint: 'SHA256:x' }, login: 'key', facts, at }, otherServer);

describe('the plan of a machine', () => {
  it('installs the agent where all that it needs is there, on any distribution', () => {
    expect(plan(complete).plan).toEqual({ job: 'agent', engine: 'Docker 26.1.5 answers' });
    expect(plan({ ...complete, os: 'fedora', os_name: 'Fedora 43', packages: 'dnf' }).plan?.job).toBe('agent');
    const arch = { ...complete, os: 'arch', os_version: undefined, os_name: 'Arch Linux', packages: 'pacman' };
    expect(plan(arch).plan?.job).toBe('agent');
  });

  it('names what is to be installed by hand where nothing can be installed, and ends there', () => {
    const fedora: Facts = { ...complete, os: 'fedora', os_version: '43', os_name: 'Fedora 43', packages: 'dnf' };
    const { docker: _, docker_client: __, fetch: ___, ...bareFedora } = fedora;
    expect(plan(bareFedora).fault).toMatchObject({
      step: 'MachineFits',
      remedy: expect.stringContaining('what is missing: the Docker engine 20.10 or later, curl'),
      isFinal: true,
    });
    const { docker: ____, ...silent } = fedora;
    expect(plan(silent).plan?.job).toBe('packages'); // which starts the engine
  });

  it('does not begin on a machine whose C library the agent cannot use', () => {
    const alpine: Facts = { ...complete, os: 'alpine', os_name: 'Alpine Linux 3.22', packages: 'apk', libc: 'musl' };
    expect(plan(alpine).fault).toMatchObject({ step: 'MachineFits', isFinal: true });
  });

  it.each(['docker', 'git', 'iptables', 'fetch'] as const)('installs what is missing first: %s', (name) => {
    const { [name]: _, ...facts } = complete;
    expect(plan(facts).plan).toEqual({ job: 'packages' });
  });

  it('lets an engine that is installed and silent be started', () => {
    const { docker: _, ...facts } = complete;
    expect(plan({ ...facts, docker_socket: 'yes' }).plan).toEqual({ job: 'packages' });
  });

  it('waits for an agent that removes itself, and ends where one of another server stays', () => {
    const other = { ...complete, agent_server: 'one' };
    expect(plan(other, 'one').fault).toMatchObject({ reason: 'OtherAgent', isFinal: true });
    for (const facts of [
      { ...other, agent_leaves: 'yes' as const },
      { ...complete, agent_leaves: 'yes' as const },
    ])
      expect(plan(facts, facts.agent_server).fault).toMatchObject({
        step: 'MachineFits',
        reason: 'AgentLeaves',
        message: expect.stringContaining('removes itself'),
        isFinal: false,
      });
  });

  it('names every requirement that is not met, each with what to do', () => {
    const { fault } = plan({ ...bare, disk_free_kib: 1, memory_kib: 1 });
    expect(fault?.message.split('; ')).toHaveLength(2);
    expect(fault?.remedy.split('; ')).toEqual([
      expect.stringContaining('Free space'),
      expect.stringContaining('Use a machine'),
      `then ${triesAgain}`,
    ]);
  });

  it('leaves the agent of another server alone, and goes on with its own', () => {
    expect(plan(complete, 'two').fault).toMatchObject({
      reason: 'OtherAgent',
      message: expect.stringContaining('two'),
    });
    expect(plan(complete).plan?.job).toBe('agent');
  });
});

describe('the steps', () => {
  const done = (...names: StepName[]) =>
    new Map(names.map((name) => [name, { reason: 'Done', message: 'It is done' }]));

  it('are always the same, in the same order', () => {
    expect(stepsOf(new Map()).map(({ type }) => type)).toEqual([...provisioningSteps]);
    expect(new Set(stepsOf(new Map()).map(({ status }) => status))).toEqual(new Set(['unknown']));
  });

  it('show the one that failed, with what to do', () => {
    const fault = { step: 'LoggedIn', reason: 'No', message: 'It says no', remedy: 'Ask', isFinal: true } as const;
    const steps = stepsOf(done('Reachable', 'HostKeyTrusted'), fault);
    expect(steps.map(({ status }) => status)).toEqual([
      'true',
      'true',
      'false',
      ...Array.from({ length: 4 }, () => 'unknown'),
    ]);
    expect(decisiveStep(steps)).toMatchObject({ type: 'LoggedIn', message: 'It says no. Ask' });
  });

  it.each<SshFailureCode>(['cut', 'timeout'])('%s concerns the step that was open', (code) => {
    const failure = new SshFailure(code, 'It broke', 'Look');
    expect(faultOf(failure, done('Reachable', 'HostKeyTrusted', 'LoggedIn')).step).toBe('MachineFits');
    expect(faultOf(failure, done('Reachable')).isFinal).toBe(false);
  });
});

describe('the script of a job', () => {
  const job = { id: 'b7b5a1b2-6f5e-5d0a-8c1b-0d7c5f1e2a3b', name: 'agent' } as const;
  const payload = { script: 'echo hello\n', server: 'https://setpoint.test/default', token: `sj_${'a'.repeat(76)}` };

  it('takes nothing that could be more than a value', () => {
    expect(() => starts(job, { ...payload, token: "sj_a' && reboot '" })).toThrow('join token');
    expect(() => starts(job, { ...payload, server: "https://x/'$(reboot)'" })).toThrow('address');
    expect(() => starts(job, { ...payload, server: 'https://x/\nreboot' })).toThrow('address');
    expect(() => starts({ ...job, id: "x' reboot '" }, payload)).toThrow('UUID');
    expect(() => starts(job, { ...payload, script: 'a\nEND_OF_SETPOINT_JOB\nreboot\n' })).toThrow('line that ends it');
  });

  it('begins with its last line, so that one that is cut off does nothing', () => {
    for (const text of [starts(job, payload), looksAt(job)]) expect(text.trimEnd().split('\n').at(-1)).toBe('main');
  });

  it('has no token when it only looks', () => {
    expect(looksAt(job)).not.toContain('sj_');
    expect(looksAt(job)).toContain('starts=\n');
  });
});

test.each([
  ['Welcome!\nstate=running\n', { state: 'running' }],
  ['state=running\nsays=\n', { state: 'running' }],
  ['state=running\nsays=Waits for apt\n', { state: 'running', says: 'Waits for apt' }],
  ['state=none\n', { state: 'none' }],
  ['state=ended\ncode=0\nsays=All is = well\n', { state: 'ended', code: 0, says: 'All is = well' }],
  ['state=ended\ncode=\nsays=\n', { state: 'ended', code: 0, says: '' }],
  ['state=ended\n', { state: 'ended', code: Number.NaN, says: '' }],
  ['lacks=flock\n', { state: 'impossible', lacks: 'flock' }],
  ['', { state: 'unknown', says: 'No space left' }],
])('%j is understood', (output, state) => {
  expect(jobStateOf(output, 'No space left', (text) => text)).toEqual(state);
});

test.each(['state=ended\ncode=1\nsays=', 'lacks=', 'state=odd\n'])(
  'what a machine says after %j is shown without the password of the login',
  (start) => {
    const password = 'hünter "2"';
    const hide = hiding({ type: 'password', password });
    // the scripts print ASCII only
    for (const form of [password, 'hnter "2"'])
      expect(jobStateOf(`${start}sh: 1: ${form}: not found\n`, '', hide)).toMatchObject(
        start === 'lacks='
          ? { lacks: 'sh: 1: ***: not found' }
          : { says: expect.stringContaining('sh: 1: ***: not found') },
      );
  },
);

test.each(['state=ended\ncode=1\nsays=', 'lacks=', 'state=odd\n'])(
  'what a machine says after %j is short and printable, whatever it is',
  (start) => {
    const hostile = `${'\u001B[2J\u202E\0'.repeat(3000)}${'x'.repeat(30_000)}`;
    const shown = JSON.stringify(jobStateOf(`${start}${hostile}\n`, '', (text) => text));
    expect(shown.length).toBeLessThan(1000);
    expect(shown).not.toMatch(/\\u|[\p{C}]/u);
  },
);
