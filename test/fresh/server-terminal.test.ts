import { expect, test } from 'vitest';
import { openTerminal } from '../harness/server-terminal.ts';
import { until } from '../harness/until.ts';
import { startNewMachine } from './new-machine.ts';

const bash = { shell: '/bin/bash', cols: 91, rows: 31 };
/** What no hang-up ends and what neither its session nor its environment shows. It keeps the number in its file. */
const stubborn = `env -i setsid /bin/sh -c 'trap "" HUP; echo $$ >/run/stubborn; while :; do sleep 1; done' &`;

test('a terminal of a server that systemd runs is outside of the sandbox of its agent, and ends as a whole', async () => {
  await using started = await startNewMachine('bookworm');
  const { client, machine, server, installCommand, connected } = started;
  const units = async () =>
    (await machine.run("systemctl list-units --all --no-legend 'setpoint-terminal-*'")).stdout.trim();
  const isGone = async () =>
    (await units()) === '' && (await machine.run('test -e /proc/$(cat /run/stubborn)')).code === 1;
  const installed = await machine.run(installCommand);
  expect(installed, installed.stderr).toMatchObject({ code: 0 });
  await connected('the agent is connected');

  const user = await openTerminal(client, server, bash);
  user.type('echo "$USER at $PWD, $(stty size), login $(shopt -q login_shell && echo yes)."; cat /proc/self/cgroup\r');
  await user.shows('root at /root, 31 91, login yes.');
  await user.shows(/system\.slice\/setpoint-terminal-[0-9a-f]{12}-[0-9a-f-]{36}\.service/);
  user.type('grep NoNewPrivs: /proc/self/status; touch /usr/local/written /root/written && echo wri""table\r');
  await user.shows(/NoNewPrivs:\s+0/);
  await user.shows('writable\r\n');
  user.resize(133, 44);
  user.type('stty size; exit 3\r');
  await user.shows('44 133\r\n');
  await user.closed;
  expect(user.end()).toEqual({ type: 'exit', code: 3 });

  const left = await openTerminal(client, server, bash);
  left.type(`${stubborn} sleep 1000\r`);
  await until('it runs', async () => (await machine.run('test -s /run/stubborn')).code === 0);
  expect(await isGone()).toBe(false);
  left.socket.terminate();
  await until('it is gone with its user', isGone);

  for (const end of ['kill --signal KILL', 'stop']) {
    await machine.run('rm /run/stubborn');
    const deaf = await openTerminal(client, server, bash);
    deaf.type(`trap "" HUP; ${stubborn} while :; do sleep 1; done\r`);
    await until('it runs', async () => (await machine.run('test -s /run/stubborn')).code === 0);
    expect(await isGone()).toBe(false);
    await machine.run(`systemctl ${end} setpoint-agent`);
    await until(`it is gone after ${end} of the agent`, isGone);
    await deaf.closed;
    await machine.run('systemctl start setpoint-agent');
    await connected('the agent is connected');
  }

  await machine.run('systemctl stop dbus.socket dbus.service');
  const refused = await openTerminal(client, server, bash);
  await refused.closed;
  expect(refused.end()).toMatchObject({
    type: 'error',
    message: expect.stringContaining('systemd did not start the shell: Failed to connect to bus'),
  });
});
