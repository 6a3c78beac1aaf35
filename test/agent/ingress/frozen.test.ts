import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startHostProxy } from '../../harness/host-proxy.ts';
import { SteadyLoad } from '../../harness/steady-load.ts';
import { askHost } from '../../harness/through-proxy.ts';
import { until } from '../../harness/until.ts';

const program = new URL('../../harness/name-server-process.ts', import.meta.url).pathname;
const hosts = Array.from({ length: 20 }, (_, n) => `h${n}.test`);
const frozenMs = 20_000;

it(
  'answers the requests of many hosts while the agent is frozen, and follows the agent once it goes on',
  { tags: 'long', timeout: 5 * frozenMs },
  async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-frozen-'));
    stack.defer(() => rm(folder, { recursive: true }));
    const agent = stack.adopt(fork(program, [join(folder, 'agent.sock')], { execArgv: [] }), async (it) => {
      const ended = once(it, 'exit');
      it.kill('SIGKILL');
      await ended;
    });
    await once(agent, 'message');
    const proxy = stack.use(
      await startHostProxy(folder, 'one.test', { edit: (config) => config.replaceAll('names.sock', '../agent.sock') }),
    );
    agent.send(proxy.upstreams ?? []);
    for (const host of hosts) await writeFile(join(folder, 'hosts/plain', host), '');
    const loads = hosts.map((host, n) =>
      stack.use(new SteadyLoad({ url: proxy.url, host, perSecond: 5, ...(n % 2 === 0 && { body: 'once' }) })),
    );
    await until('all are asked for', () => Promise.resolve(loads.every((load) => load.outcome.sent > 5)));
    agent.kill('SIGSTOP');
    await delay(frozenMs); // the time is the point of the test
    agent.kill('SIGCONT');

    const other = createServer((_, response) => response.end('Other')).listen(0, proxy.address);
    await once(other, 'listening');
    stack.defer(() => other.close().closeAllConnections());
    const { port } = other.address() as AddressInfo; // it listens on a port
    agent.send([{ address: proxy.address, port }]);
    await until('it follows', async () => (await askHost(`http://${hosts[0]}/`, proxy.port)).body === 'Other');
    const outcomes = await Promise.all(loads.map((load) => load.end()));
    expect(outcomes.map(({ failures }) => failures)).toEqual(hosts.map(() => ({})));
  },
);
