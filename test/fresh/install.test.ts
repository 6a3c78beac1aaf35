import { expect, test } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { ownPlatform } from '../harness/built-release.ts';
import { otherControlPlane } from '../harness/other-control-plane.ts';
import { smallRelease } from '../harness/small-release.ts';
import { until } from '../harness/until.ts';
import { startNewMachine } from './new-machine.ts';

const { version } = packageFile;

test('a bare Debian with systemd gets the agent by the command of a new server, and keeps it', async () => {
  await using stack = new AsyncDisposableStack();
  const { client, host, machine, server, installCommand, connected } = stack.use(await startNewMachine('bookworm'));

  const first = await machine.run(installCommand);
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
  await client.request('DELETE', `/api/v1/servers/${server}`);
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
