import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Client } from '../../cli/client.ts';
import { until } from '../harness/until.ts';
import { startNewMachine } from './new-machine.ts';

const Made = z.object({ sessionId: z.string() });

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

  const user = await open(client, server);
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

  const left = await open(client, server);
  left.type(`${stubborn} sleep 1000\r`);
  await until('it runs', async () => (await machine.run('test -s /run/stubborn')).code === 0);
  expect(await isGone()).toBe(false);
  left.socket.terminate();
  await until('it is gone with its user', isGone);

  for (const end of ['kill --signal KILL', 'stop']) {
    await machine.run('rm /run/stubborn');
    const deaf = await open(client, server);
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
  const refused = await open(client, server);
  await refused.closed;
  expect(refused.end()).toMatchObject({
    type: 'error',
    message: expect.stringContaining('systemd did not start the shell: Failed to connect to bus'),
  });
});

async function open(client: Client, server: string) {
  const body = { shell: '/bin/bash', cols: 91, rows: 31 };
  const made = await until('there are terminals', () =>
    client.request('POST', `/api/v1/servers/${server}/terminal`, body),
  );
  const socket = await client.socket(`/ws/terminal/${Made.parse(made).sessionId}`, { output: 'binary' });
  let shown = '';
  const frames: Record<string, unknown>[] = [];
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) shown += data.toString();
    else frames.push(JSON.parse(data.toString()) as Record<string, unknown>);
  });
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  socket.resume();
  return {
    socket,
    closed,
    end: () => frames.find(({ type }) => type === 'exit' || type === 'error'),
    type: (text: string) => socket.send(JSON.stringify({ type: 'input', data: text })),
    resize: (cols: number, rows: number) => socket.send(JSON.stringify({ type: 'resize', cols, rows })),
    shows: (what: RegExp | string) =>
      until(
        `it shows ${String(what)}`,
        async () => (typeof what === 'string' ? shown.includes(what) : what.test(shown)),
        { explain: async () => JSON.stringify(shown.slice(-3000)) },
      ),
  };
}
