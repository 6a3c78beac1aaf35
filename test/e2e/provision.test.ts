import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import type { ApiObject, Client } from '../../cli/client.ts';
import { builtRelease } from '../harness/built-release.ts';
import type { BuiltRelease } from '../harness/built-release.ts';
import { freePort, Program } from '../harness/program.ts';
import { startSshMachine } from '../harness/ssh-machine.ts';
import type { SshMachine, SshMachineOptions } from '../harness/ssh-machine.ts';
import { startSshd } from '../harness/sshd.ts';
import { TcpProxy } from '../harness/tcp-proxy.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const execute = promisify(execFile);
let release: BuiltRelease;
let folder: string;
let server: Program;
let url: string;
let client: Client;

beforeAll(async () => {
  release = await builtRelease();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-provision-'));
  const listen = `127.0.0.1:${await freePort()}`;
  url = `http://${listen}`;
  const own = ['--agent-release', release.folder, '--ssh-networks', '127.0.0.0/8,::1/128'];
  server = new Program(['server', '--listen', listen, '--data', join(folder, 'server'), ...own], join(folder, 'log'));
  server.start();
  await server.ready(url);
  const visitor = createClient({ server: url, tenant: 'default' });
  const owner = { email: 'owner@example.test', password: 'correct horse battery' };
  await visitor.request('POST', '/api/v1/auth/register', { ...owner, first_name: 'Olive', last_name: 'Owner' });
  const login = await visitor.request('POST', '/api/v1/auth/login', owner);
  client = createClient({ server: url, tenant: 'default', token: z.object({ token: z.string() }).parse(login).token });
});
afterAll(async () => {
  await server.kill();
  await rm(folder, { recursive: true, force: true });
});

const startMachine = (options: SshMachineOptions = {}): Promise<SshMachine> =>
  startSshMachine(release.executable, options);
let made = 0;
const aName = (): string => `it-${(made += 1)}`;

async function keyOf(privateKey: string): Promise<string> {
  return (await client.object('POST', '/api/v1/settings/ssh-keys', { name: aName(), private_key: privateKey })).id;
}

async function serverOn(
  machine: Pick<SshMachine, 'port' | 'privateKey'>,
  { ssh_key_id, ...changes }: { ssh_key_id?: string } & Record<string, unknown> = {},
): Promise<string> {
  const key = ssh_key_id ?? (await keyOf(machine.privateKey));
  const body = { name: aName(), ipAddress: '127.0.0.1', port: machine.port, ssh_key_id: key };
  const created = await client.object('POST', '/api/v1/servers', { ...body, ...changes });
  expect(created.status).toBe('provisioning');
  return created.id;
}

const get = (id: string): Promise<ApiObject> => client.object('GET', `/api/v1/servers/${id}`);
const change = (id: string, body: object): Promise<unknown> => client.request('PUT', `/api/v1/servers/${id}`, body);
const condition = (it: ApiObject, type: string) => (it.conditions ?? []).find((one) => one.type === type);

async function explain(id: string, machine?: SshMachine): Promise<string> {
  const log = await machine?.run('tail -n 30 /var/lib/setpoint/provision/log /var/log/setpoint-agent.log');
  return [JSON.stringify(await get(id), undefined, 1), log?.stdout, await server.lastOutput()].join('\n');
}

/** Resolves when the server is active. @throws Error at once if its provisioning failed once more */
async function active(id: string, machine: SshMachine): Promise<void> {
  let wasProvisioning = false;
  const end = await until(
    'the server is active',
    async () => {
      const { status } = await get(id);
      wasProvisioning ||= status === 'provisioning';
      return (status === 'active' || (wasProvisioning && status === 'error')) && status;
    },
    { timeoutMs: 150_000, explain: () => explain(id, machine) },
  );
  expect(end, end === 'active' ? '' : await explain(id, machine)).toBe('active');
}

/** Resolves when the provisioning has failed; answers with the condition that says why. */
async function failed(id: string, type: string) {
  const it = await until(
    `the provisioning has failed`,
    async () => {
      const now = await get(id);
      return now.status === 'error' && now;
    },
    { timeoutMs: 60_000, explain: () => explain(id) },
  );
  return condition(it, type);
}

describe('a server with an address and a key', () => {
  it('has an agent on its machine, which has no systemd, without a hand on it', async () => {
    await using machine = await startMachine();
    const id = await serverOn(machine);
    await active(id, machine);
    const it = await get(id);
    expect(it['host_key']).toEqual({ type: 'ssh-ed25519', fingerprint: machine.fingerprint });
    expect(it['agent_status']).toBe('connected');
    expect((it.conditions ?? []).map(({ type }) => type)).toEqual(['EngineReady', 'Ready']);
    const read = async (line: string): Promise<string> => (await machine.run(line)).stdout.trim();
    expect(await read("ps -o args | grep -c '[/]supervise'")).toBe('1');
    expect(await read('cat /var/log/apt-get.log')).toMatch(/install .*docker\.io git iptables/);
    // the script that installs ends after the agent has joined
    const withToken = (): Promise<string> => read('grep -rl sj_ /var/lib/setpoint/provision /etc/setpoint');
    await until('the token is on the machine no more', async () => (await withToken()) === '');
    // its files are root's alone
    expect(await read('stat -c %a /var/lib/setpoint/provision')).toBe('700');
    const events = z.array(z.object({ reason: z.string() }));
    await until('the events tell it', async () => {
      const found = events.parse(await client.request('GET', `/api/v1/servers/${id}/events`));
      const reasons = found.map(({ reason }) => reason);
      return ['HostKeyPinned', 'EngineInstalled', 'AgentInstalled', 'Connected'].every((one) => reasons.includes(one));
    });
  });

  it('goes on after the control plane was killed in the middle', async () => {
    await using machine = await startMachine();
    // the installation of packages takes until the test lets it go on
    await machine.run(
      `cd /usr/local/bin && mv apt-get /tmp/real && printf '#!/bin/sh\nuntil [ -e /tmp/go ]; do sleep 1; done\nexec sh /tmp/real "$@"\n' >apt-get && chmod 755 apt-get`,
    );
    const id = await serverOn(machine);
    const runs = (what: string): Promise<true> =>
      until(`there is ${what}`, async () => (await machine.run(`test -e ${what}`)).code === 0, {
        timeoutMs: 75_000,
        explain: () => explain(id, machine),
      });
    await runs('/var/lib/setpoint/provision/job');
    await server.restart();
    await server.ready(url);
    await machine.run('touch /tmp/go');
    await runs('/opt/setpoint-agent/supervise');
    await server.restart();
    await server.ready(url);
    await active(id, machine);
    expect((await machine.run('grep -c install /var/log/apt-get.log')).stdout.trim()).toBe('1');
  });
});

/** Another sshd answers at the machine's address from now on. Answers with the fingerprint of its host key. */
async function otherHostKey(machine: SshMachine): Promise<string> {
  const file = join(folder, aName());
  await execute('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
  const start = '/usr/sbin/sshd -E /var/log/sshd.log -f /etc/ssh/sshd_config';
  const swap = `kill $(pidof sshd); printf %s "$TEXT" >/etc/ssh/host_key; for try in $(seq 100); do ${start} && exit; sleep 0.1; done; exit 1`;
  expect(await machine.run(swap, { TEXT: await readFile(file, 'utf8') })).toMatchObject({ code: 0 });
  return (await execute('ssh-keygen', ['-l', '-f', `${file}.pub`])).stdout.split(' ')[1] ?? '';
}

/** What waits for the next attempt over a bad line runs beside the rest, whose tests run in turn. */
const beside = { concurrent: true };
const inTurn = { concurrent: false };

describe('on a bad line', { ...beside, tags: 'long' }, () => {
  it('comes through a connection that is cut at each step', async () => {
    await using machine = await startMachine();
    await using proxy = await TcpProxy.start(machine.port);
    // the greeting, the login, the look, the script of the packages
    const budgets = [10, 1500, 3000, 4500];
    proxy.cutAfter(budgets.shift()!);
    const id = await serverOn(machine, { port: Number(proxy.host.split(':')[1]) });
    let cuts = 0;
    await until(
      'the server is active',
      async () => {
        if (proxy.cuts > cuts) {
          cuts = proxy.cuts;
          const next = budgets.shift();
          if (next !== undefined) proxy.cutAfter(next);
        }
        return (await get(id)).status === 'active';
      },
      { timeoutMs: 170_000, explain: () => explain(id, machine) },
    );
    expect(cuts).toBeGreaterThanOrEqual(2);
  });
});

describe('on a good line', beside, () => {
  describe('a login', inTurn, () => {
    const password = 'päss "word" $HOME';
    const passwordOf = async (text: string): Promise<string> =>
      (await client.object('POST', '/api/v1/settings/ssh-keys', { name: aName(), password: text })).id;

    it('by a password, for which sudo asks too', { tags: [longTag] }, async () => {
      await using machine = await startMachine({ password });
      await machine.run("printf 'Defaults lecture=always, use_pty\\nops ALL=(ALL) ALL\\n' >/etc/sudoers");
      const key = await passwordOf('another one');
      const id = await serverOn(machine, { username: 'ops', ssh_key_id: key });
      const refused = await failed(id, 'LoggedIn');
      expect(refused).toMatchObject({ status: 'false', reason: 'LoginRefused' });
      expect(refused?.message).toContain('It refuses the password for the user ops');
      await client.request('PUT', `/api/v1/settings/ssh-keys/${key}`, { password });
      await client.request('POST', `/api/v1/servers/${id}/provision`, {});
      await active(id, machine);
      const told = [await server.lastOutput(), (await machine.run('cat /var/lib/setpoint/provision/log')).stdout];
      expect(told.join('\n')).not.toContain(password);
    });

    it('by a password, whose user may not run sudo, until it may', { tags: [longTag] }, async () => {
      await using machine = await startMachine({ password });
      await machine.run("echo 'root ALL=(ALL) ALL' >/etc/sudoers");
      const id = await serverOn(machine, { username: 'ops', ssh_key_id: await passwordOf(password) });
      const why = await failed(id, 'MachineFits');
      expect(why?.message).toContain(
        'sudo does not take the password of the login. It said: ops is not in the sudoers file',
      );
      expect(condition(await get(id), 'LoggedIn')?.status).toBe('true');
      await machine.run("echo 'ops ALL=(ALL) ALL' >>/etc/sudoers");
      await client.request('POST', `/api/v1/servers/${id}/provision`, {});
      await active(id, machine);
    });

    it(
      'by a password that sudo does not ask for where it runs sh, and that root never runs',
      { tags: 'long' },
      async () => {
        const line = 'touch /tmp/ran';
        await using machine = await startMachine({ password: line });
        await machine.run("echo 'ops ALL=(ALL) NOPASSWD: /bin/sh' >>/etc/sudoers");
        const id = await serverOn(machine, { username: 'ops', ssh_key_id: await passwordOf(line) });
        await active(id, machine);
        expect((await machine.run('test -e /tmp/ran')).code).toBe(1);
      },
    );

    it('by a password, until sudo needs no terminal and asks for that of the user', { tags: 'long' }, async () => {
      await using machine = await startMachine({ password });
      const rules = (text: string) => machine.run(`printf 'ops ALL=(ALL) ALL\n${text}' >/etc/sudoers`);
      const says = (what: string): Promise<true> =>
        until(
          `it says: ${what}`,
          async () => condition(await get(id), 'MachineFits')?.message.includes(what) === true,
          {
            timeoutMs: 60_000,
            explain: () => explain(id, machine),
          },
        );
      const again = () => client.request('POST', `/api/v1/servers/${id}/provision`, {});
      await rules('Defaults requiretty\\n');
      const id = await serverOn(machine, { username: 'ops', ssh_key_id: await passwordOf(password) });
      await says('sudo runs from a terminal only (requiretty)');
      await failed(id, 'MachineFits');
      await rules('Defaults rootpw\\n');
      await again();
      await says('sudo does not take the password of the login. It said: Sorry, try again');
      expect((await failed(id, 'MachineFits'))?.message).toContain('1 incorrect password attempt');
      await rules('');
      await again();
      await active(id, machine);
    });

    it('by a key, where sudo asks for a password, until it asks for none', { tags: [longTag] }, async () => {
      await using machine = await startMachine({ password });
      const id = await serverOn(machine, { username: 'ops' });
      const why = await failed(id, 'MachineFits');
      expect(why?.message).toContain('sudo asks for a password, and the login is by a key');
      await machine.run("echo 'ops ALL=(ALL) NOPASSWD:ALL' >>/etc/sudoers");
      await client.request('POST', `/api/v1/servers/${id}/provision`, {});
      await active(id, machine);
    });

    it('by a key with a passphrase, at an IPv6 address', { tags: 'long' }, async () => {
      await using machine = await startMachine({ address: '::1' });
      const file = join(folder, aName());
      await writeFile(file, machine.privateKey, { mode: 0o600 });
      await execute('ssh-keygen', ['-q', '-p', '-P', '', '-N', 'open sesame', '-f', file]);
      const secret = { private_key: await readFile(file, 'utf8'), passphrase: 'open sesame' };
      const key = await client.object('POST', '/api/v1/settings/ssh-keys', { name: aName(), ...secret });
      const id = await serverOn(machine, { ipAddress: '::1', ssh_key_id: key.id });
      await active(id, machine);
      expect((await get(id))['host_key']).toEqual({ type: 'ssh-ed25519', fingerprint: machine.fingerprint });
    });
  });

  describe('a machine that cannot become a server leaves its server in error, with what to do', inTurn, () => {
    it('another key, until the right one is named', { tags: [longTag] }, async () => {
      await using machine = await startMachine();
      await using other = await startSshd();
      const id = await serverOn({ port: machine.port, privateKey: other.privateKey });
      const why = await failed(id, 'LoggedIn');
      expect(why).toMatchObject({ status: 'false', reason: 'LoginRefused' });
      expect(why?.message).toContain('authorized_keys');
      await change(id, { ssh_key_id: await keyOf(machine.privateKey) });
      await active(id, machine);
    });

    it('another port, until it is mended', { tags: [longTag] }, async () => {
      await using machine = await startMachine();
      const id = await serverOn(machine, { port: await freePort() });
      const unreachable = await until(
        'it is not reached',
        async () => {
          const found = condition(await get(id), 'Reachable');
          return found?.status === 'false' && found;
        },
        { explain: () => explain(id) },
      );
      expect(unreachable).toMatchObject({ reason: 'Unreachable' });
      await change(id, { port: machine.port });
      await active(id, machine);
    });

    it('another host key, until an admin trusts it', { tags: [longTag] }, async () => {
      await using machine = await startMachine();
      const body = { name: aName(), ipAddress: '127.0.0.1', port: machine.port };
      const { id } = await client.object('POST', '/api/v1/servers', body);
      const trust = (fingerprint: string): Promise<unknown> =>
        client.request('POST', `/api/v1/servers/${id}/trust-host-key`, { fingerprint });
      await trust(`SHA256:${'a'.repeat(43)}`);
      await change(id, { ssh_key_id: await keyOf(machine.privateKey) });
      const why = await failed(id, 'HostKeyTrusted');
      expect(why).toMatchObject({ status: 'false', reason: 'HostKeyChanged' });
      expect(why?.message).toContain(machine.fingerprint);
      await trust(machine.fingerprint);
      await active(id, machine);
    });

    it(
      'a machine that another one has replaced since the last attempt, until an admin trusts it',
      { tags: 'long' },
      async () => {
        await using machine = await startMachine();
        const id = await serverOn(machine, { username: 'ops' });
        await failed(id, 'MachineFits');
        expect((await get(id))['host_key']).toEqual({ type: 'ssh-ed25519', fingerprint: machine.fingerprint });
        const fingerprint = await otherHostKey(machine);
        const logins = async (): Promise<string> =>
          (await machine.run('grep -c Accepted /var/log/sshd.log')).stdout.trim();
        const before = await logins();
        await change(id, { username: 'root' });
        const refused = () => condition(lastSeen, 'HostKeyTrusted');
        let lastSeen = await get(id);
        await until(
          'the other host key is refused',
          async () => {
            lastSeen = await get(id);
            return lastSeen.status === 'error' && refused()?.status === 'false';
          },
          { timeoutMs: 60_000, explain: () => explain(id, machine) },
        );
        expect(refused()).toMatchObject({ reason: 'HostKeyChanged', message: expect.stringContaining(fingerprint) });
        expect(refused()?.message).toContain(machine.fingerprint);
        expect(await logins()).toBe(before);
        await client.request('POST', `/api/v1/servers/${id}/trust-host-key`, { fingerprint });
        await active(id, machine);
        expect((await get(id))['host_key']).toMatchObject({ fingerprint });
      },
    );

    it('a user without sudo', { tags: [longTag] }, async () => {
      await using machine = await startMachine();
      const id = await serverOn(machine, { username: 'ops' });
      const why = await failed(id, 'MachineFits');
      expect(why?.message).toContain('there is no sudo');
      expect(condition(await get(id), 'LoggedIn')?.status).toBe('true');
      expect((await machine.run('test -e /var/lib/setpoint')).code).toBe(1);
    });

    it('no space', { tags: [longTag] }, async () => {
      await using machine = await startMachine({ flags: ['--tmpfs', '/var/lib/docker:size=16m'] });
      const id = await serverOn(machine);
      expect((await failed(id, 'MachineFits'))?.message).toContain('0.0 GiB are free');
      expect((await machine.run('test -e /var/lib/setpoint')).code).toBe(1);
    });

    it(
      'a system for which there are no packages, until it has them, and another attempt is asked for',
      { tags: [longTag] },
      async () => {
        await using machine = await startMachine();
        await machine.run(
          "printf 'ID=gentoo\\nPRETTY_NAME=Gentoo\\n' >/etc/os-release; mv /usr/local/bin/apt-get /tmp/apt-get",
        );
        const id = await serverOn(machine);
        const why = await failed(id, 'MachineFits');
        expect(why?.message).toContain('It runs Gentoo, for which nothing can be installed');
        await machine.run('sh /tmp/apt-get install');
        await client.request('POST', `/api/v1/servers/${id}/provision`, {});
        await active(id, machine);
      },
    );
  });
});
