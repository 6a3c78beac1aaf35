import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import packageFile from '../../package.json' with { type: 'json' };
import { createClient } from '../../cli/client.ts';
import { builtRelease, ownPlatform } from '../harness/built-release.ts';
import { docker } from '../harness/engine.ts';
import { otherControlPlane } from '../harness/other-control-plane.ts';
import { freePort, Program } from '../harness/program.ts';
import { smallRelease } from '../harness/small-release.ts';
import { until } from '../harness/until.ts';
import { startSystemdMachine } from './systemd-machine.ts';

const { version } = packageFile;

test('a bare Debian with systemd gets the agent by the command of a new server, and keeps it', async () => {
  await using stack = new AsyncDisposableStack();
  const release = await builtRelease();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-install-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const host = await docker('network', 'inspect', 'bridge', '--format', '{{(index .IPAM.Config 0).Gateway}}');
  const port = await freePort();
  const url = `http://${host}:${port}`;
  const flags = ['--listen', `${host}:${port}`, '--public-url', url, '--data', join(folder, 'server')];
  const own = ['--agent-release', release.folder, '--setup-token', 'off'];
  const server = new Program(['server', ...flags, ...own], join(folder, 'server.log'));
  server.start();
  stack.defer(() => server.kill());
  await server.ready(url);
  const visitor = createClient({ server: url, tenant: 'default' });
  const credentials = { email: 'owner@example.test', password: 'correct horse battery' };
  const registered = await visitor.request('POST', '/api/v1/auth/register', credentials);
  const { token } = z.object({ token: z.string() }).parse(registered);
  const client = createClient({ server: url, tenant: 'default', token });

  const machine = stack.use(await startSystemdMachine('bookworm'));
  const made = await client.object('POST', '/api/v1/servers', { name: 'one' });
  const connected = (what: string): Promise<true> =>
    until(
      what,
      async () => (await client.object('GET', `/api/v1/servers/${made.id}`))['agent_status'] === 'connected',
      { explain: async () => (await machine.run('journalctl --no-pager -n 60')).stdout },
    );
  await machine.run('mkdir -p /etc/setpoint && echo SETPOINT_RUNTIME=mock >/etc/setpoint/agent.env');

  const first = await machine.run(`${String(made['install_command'])} --allow-plain-http`);
  expect(first, first.stderr).toMatchObject({ code: 0 });
  expect(first.stdout).toContain('The library libatomic is missing: apt-get install -y -q libatomic1');
  expect(first.stdout).toContain('The agent has joined the control plane');
  expect(first.stdout).toContain('git is missing');
  await connected('the agent is connected');
  expect((await machine.run('systemctl is-active setpoint-agent')).stdout).toBe('active\n');
  expect((await machine.run('systemctl is-enabled setpoint-agent')).stdout).toBe('enabled\n');

  const broken = '#!/bin/sh\n[ "$1" != --version ] || { echo 9.9.9; exit; }\nexit 1\n';
  const later = stack.use(await smallRelease('9.9.9', { [ownPlatform]: broken }));
  const other = stack.use(await otherControlPlane(later.manifest, { content: () => broken, host }));
  const update = await machine.run(`curl -fsSL ${other.url}/install.sh | sh`);
  expect(update).toMatchObject({ code: 1, stderr: expect.stringContaining('the version before it runs again') });
  expect((await machine.run('cat /opt/setpoint-agent/current')).stdout).toBe(`${version}\n`);
  await connected('the agent that worked is connected again');

  await machine.restart();
  await connected('the agent is connected after a restart of the machine');

  const stop = await machine.run(
    'systemctl stop setpoint-agent && journalctl -u setpoint-agent -o cat --no-pager -n 20',
  );
  expect(stop.code).toBe(0);
  expect(stop.stdout).toContain('Agent stops');
  expect((await machine.run('systemctl show -p Result setpoint-agent')).stdout).toBe('Result=success\n');

  await machine.run('systemctl start setpoint-agent');
  await connected('the agent is connected once more');
  await client.request('DELETE', `/api/v1/servers/${made.id}`);
  const folders = '/opt/setpoint-agent /etc/setpoint /var/lib/setpoint /usr/local/bin/setpoint-agent';
  const left = async (): Promise<string> => {
    const files = `ls -d ${folders} /etc/systemd/system/setpoint-* /etc/systemd/system/*/setpoint-* 2>/dev/null`;
    const units = "systemctl list-units --all --plain --no-legend 'setpoint-*'";
    return (await machine.run(`${files}; ${units}`)).stdout;
  };
  await until('the agent of the deleted server has left nothing', async () => (await left()) === '', {
    timeoutMs: 90_000,
    explain: async () => `${await left()}${(await machine.run('journalctl --no-pager -n 60')).stdout}`,
  });
});
