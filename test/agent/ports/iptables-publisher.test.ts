import { execFile } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../agent-protocol/clock.ts';
import { bridgeOf, reflect } from '../../../agent/ports/bridges.ts';
import { IptablesPublisher } from '../../../agent/ports/iptables-publisher.ts';
import { chainsOf } from '../../../agent/ports/rules.ts';
import type { PortBackend } from '../../../agent/publication.ts';
import { testDocker, type TestDocker } from '../../harness/docker.ts';
import { ensureTestImages } from '../../harness/test-image.ts';
import { until } from '../../harness/until.ts';

let docker: TestDocker;
let elsewhere: TestDocker;
let image: string;
let blue: Instance;
let green: Instance;
let stranger: Instance;
let publisher: IptablesPublisher;
let port: number;

interface Instance extends PortBackend {
  id: string;
  pid: number;
  /** What it calls itself in its answers. */
  host: string;
}

const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const exec = promisify(execFile);
const silent = pino({ level: 'silent' });
const outside = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === 'IPv4' && !one.internal)!.address;

beforeAll(async () => {
  image = (await ensureTestImages()).http;
  docker = await testDocker();
  elsewhere = await testDocker();
  [blue, green, stranger] = await Promise.all([instance(docker), instance(docker), instance(elsewhere)]);
});
afterAll(async () => {
  await docker[Symbol.asyncDispose]();
  await elsewhere[Symbol.asyncDispose]();
});
beforeEach(async () => {
  publisher = new IptablesPublisher(docker.server, { clock: systemClock, log: silent });
  port = await freePort();
});
afterEach(async () => {
  await publisher.close({ remove: true }, signal());
});

async function instance(on: TestDocker): Promise<Instance> {
  const { runtime, network } = on;
  const id = await runtime.create(on.spec({ image }), signal());
  await runtime.start(id, signal());
  const it = (await runtime.inspect(id, signal()))!;
  const address = it.addresses[network]!;
  await until('the instance answers', async () => (await ask(`http://${address}:8080/`)).length > 0);
  return { id, address, port: 8080, pid: it.pid, host: id.slice(0, 12) };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '0.0.0.0');
  await once(server, 'listening');
  const found = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
  return found;
}

/** Publishes the test's port alone. */
async function publish(...backends: PortBackend[]): Promise<Map<number, string>> {
  return publisher.apply(new Map([[port, backends]]), signal());
}

/** Body of the answer over a connection of its own. */
function ask(url: string, agent: Agent | false = false): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { agent, timeout: 5_000 }, (answer) => {
      let body = '';
      answer.on('data', (chunk: Buffer) => (body += chunk.toString()));
      answer.on('end', () => resolve(body));
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`${url} did not answer`)));
    outgoing.on('error', reject);
    outgoing.end();
  });
}

async function hostAt(address: string): Promise<string> {
  return (JSON.parse(await ask(`http://${address}:${port}/`)) as { host: string }).host;
}

/** The same from inside of an instance. */
async function hostSeenBy(from: Instance, address: string): Promise<string> {
  const code = `fetch('http://${address}:${port}/', {signal: AbortSignal.timeout(5000)}).then((r) => r.json()).then((it) => console.log(it.host))`;
  const { stdout } = await exec('docker', ['exec', from.id, '/bin/node', '-e', code]);
  return stdout.trim();
}

async function rulesOf(owner: string): Promise<string[]> {
  const { stdout } = await exec('iptables-save');
  const own = Object.values(chainsOf(owner));
  return stdout.split('\n').filter((line) => own.some((name) => line.includes(name)));
}

test('a port leads to its instance from this machine and from outside of it', async () => {
  expect(await publish(blue)).toEqual(new Map());
  expect(await hostAt('127.0.0.1')).toBe(blue.host);
  expect(await hostAt(outside)).toBe(blue.host);
});

test('a port leads to its instance from other networks, from its own and from itself', async () => {
  await publish(blue);
  expect(await hostSeenBy(stranger, outside)).toBe(blue.host);
  expect(await hostSeenBy(green, outside)).toBe(blue.host);
  expect(await hostSeenBy(blue, outside)).toBe(blue.host);
});

test('a port leads to all of its instances', async () => {
  await publish(blue, green);
  const seen = new Map<string, number>();
  for (let n = 0; n < 80; n++) {
    const host = await hostAt(n % 2 === 0 ? '127.0.0.1' : outside);
    seen.set(host, (seen.get(host) ?? 0) + 1);
  }
  expect([...seen.keys()].toSorted()).toEqual([blue.host, green.host].toSorted());
  // Less than one in a million runs is further from half than this.
  for (const count of seen.values()) expect(count).toBeGreaterThan(16);
});

test('an exchange of instances under load loses no request', async () => {
  await publish(blue);
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  let over = false;
  const answers: string[] = [];
  const worker = async (address: string, connections: Agent | false): Promise<void> => {
    while (!over) answers.push(await ask(`http://${address}:${port}/env/HOSTNAME`, connections));
  };
  const workers = [
    worker('127.0.0.1', false),
    worker('127.0.0.1', false),
    worker(outside, false),
    worker('127.0.0.1', agent),
    worker(outside, agent),
  ];
  for (let n = 0; n < 25; n++) await publish(...(n % 3 === 0 ? [green] : n % 3 === 1 ? [blue, green] : [blue]));
  over = true;
  await Promise.all(workers);
  agent.destroy();
  expect(answers.length).toBeGreaterThan(100);
  expect(new Set(answers)).toEqual(new Set([blue.host, green.host]));
});

test('a request that is under way ends with the instance that it began with', async () => {
  await publish(blue);
  const requests = ['127.0.0.1', outside].map((address) => ask(`http://${address}:${port}/slow/700`));
  await until('both arrived', async () => {
    const { requests: count } = JSON.parse(await ask(`http://${blue.address}:8080/`)) as { requests: number };
    return count > 2;
  });
  await publish(green);
  await Promise.all(requests);
  expect(await hostAt('127.0.0.1')).toBe(green.host);
});

test('a port without an instance is held and refuses', async () => {
  expect(await publish()).toEqual(new Map());
  await expect(ask(`http://127.0.0.1:${port}/`)).rejects.toMatchObject({ code: 'ECONNRESET' });
  await expect(listen(port)).rejects.toMatchObject({ code: 'EADDRINUSE' });
});

test('a port that another program has is told by its number, and the others are published', async () => {
  const program = await listen(port);
  const free = await freePort();
  const wanted = new Map([
    [port, [blue]],
    [free, [green]],
  ]);
  expect(await publisher.apply(wanted, signal())).toEqual(
    new Map([[port, `Port ${port} of the server is taken by another program`]]),
  );
  expect(JSON.parse(await ask(`http://127.0.0.1:${free}/`))).toMatchObject({ host: green.host });
  await expect(ask(`http://127.0.0.1:${port}/`)).rejects.toThrow();
  program.close();
  await once(program, 'close');
  expect(await publisher.apply(wanted, signal())).toEqual(new Map());
  expect(await hostAt('127.0.0.1')).toBe(blue.host);
});

test('two agents of one machine do not have the same port', async () => {
  const other = new IptablesPublisher(elsewhere.server, { clock: systemClock, log: silent });
  try {
    await publish(blue);
    expect(await other.apply(new Map([[port, [stranger]]]), signal())).toEqual(
      new Map([[port, `Port ${port} of the server is taken by another program`]]),
    );
    const free = await freePort();
    expect(await other.apply(new Map([[free, [stranger]]]), signal())).toEqual(new Map());
    expect(JSON.parse(await ask(`http://127.0.0.1:${free}/`))).toMatchObject({ host: stranger.host });
    expect(await hostAt('127.0.0.1')).toBe(blue.host);
  } finally {
    await other.close({ remove: true }, signal());
  }
});

test('ports stay published while the agent is away, and the next one takes them over', async () => {
  await publish(blue);
  await publisher.close({ remove: false }, signal());
  expect(await hostAt('127.0.0.1')).toBe(blue.host);
  publisher = new IptablesPublisher(docker.server, { clock: systemClock, log: silent });
  await publish(blue);
  const before = await rulesOf(docker.server);
  await publish(blue);
  expect(await rulesOf(docker.server)).toEqual(before);
  expect(before.filter((line) => line.startsWith('-A PREROUTING'))).toHaveLength(2);
  await publish(green);
  expect(await hostAt('127.0.0.1')).toBe(green.host);
});

test('rules that somebody removed or moved come back', async () => {
  await publish(blue);
  const before = (await rulesOf(docker.server)).toSorted();
  const { ports, pass } = chainsOf(docker.server);
  await exec('iptables', ['--wait', '5', '-t', 'nat', '-F', ports]);
  await publish(blue);
  await exec('iptables', ['--wait', '5', '-D', 'FORWARD', '-j', pass]);
  await exec('iptables', ['--wait', '5', '-A', 'FORWARD', '-j', pass]);
  await publish(blue);
  await exec('iptables', [
    '--wait',
    '5',
    '-t',
    'nat',
    '-D',
    'OUTPUT',
    '-m',
    'addrtype',
    '--dst-type',
    'LOCAL',
    '-j',
    ports,
  ]);
  await publish(blue);
  expect((await rulesOf(docker.server)).toSorted()).toEqual(before);
  expect(await hostAt('127.0.0.1')).toBe(blue.host);
});

test('SEC-24 an instance does not reach the address at which a cloud tells credentials', async () => {
  const probe = (address: string): Promise<string> => {
    const script = `require('net').connect(80, '${address}').on('error', (e) => console.log(e.code)).setTimeout(3000, function () { console.log('silence'); this.destroy(); })`;
    const run = exec('nsenter', ['-t', `${green.pid}`, '-n', process.execPath, '-e', script]);
    return run.then(({ stdout }) => stdout.trim());
  };
  await publisher.apply(new Map(), signal());
  expect(await probe('169.254.169.254')).toBe('ECONNREFUSED');
  expect((await rulesOf(docker.server)).join('\n')).toContain('-d 169.254.169.254/32 -i sp-+ -j REJECT');
  await publisher.close({ remove: true }, signal());
  expect(await rulesOf(docker.server)).toEqual([]);
});

test('nothing but the guard is left when no port is published', async () => {
  const sysctl = `/proc/sys/net/ipv4/conf/${bridgeOf(blue.address)!.name}/route_localnet`;
  await publish(blue);
  expect((await readFile(sysctl, 'utf8')).trim()).toBe('1');
  await publisher.apply(new Map(), signal());
  expect((await readFile(sysctl, 'utf8')).trim()).toBe('0');
  const { guard } = chainsOf(docker.server);
  expect((await rulesOf(docker.server)).filter((line) => !line.includes(guard))).toEqual([]);
  await (await listen(port))[Symbol.asyncDispose]();
});

test('SEC-24 an instance does not reach what listens on 127.0.0.1 of the machine', async () => {
  const heard: string[] = [];
  const service = createSocket('udp4', (message) => heard.push(message.toString()));
  service.bind(0, '127.0.0.1');
  await once(service, 'listening');
  const send = `const [, text] = process.argv; const s = require('dgram').createSocket('udp4'); s.send(text, ${service.address().port}, '127.0.0.1', () => s.close())`;
  const inside = (...args: string[]): Promise<unknown> => exec('nsenter', ['-t', `${green.pid}`, '-n', ...args]);
  const attack = (text: string): Promise<unknown> => inside(process.execPath, '-e', send, text);
  try {
    await publish(blue);
    // The instance sends what is for its own loopback to the machine instead.
    const gateway = bridgeOf(green.address)!.subnet.split('/')[0]!;
    await inside('ip', 'route', 'del', 'local', '127.0.0.0/8', 'dev', 'lo', 'table', 'local');
    await inside('ip', 'route', 'del', 'local', '127.0.0.1', 'dev', 'lo', 'table', 'local');
    await inside('ip', 'route', 'add', '127.0.0.1/32', 'via', gateway, 'dev', 'eth0', 'src', green.address);
    await attack('first');
    // Without the protection it gets through, so the attack is a real one.
    await exec('iptables', ['--wait', '5', '-t', 'raw', '-F', chainsOf(docker.server).loop]);
    await attack('second');
    await publish(blue);
    await attack('third');
    await exec(process.execPath, ['-e', send, 'last']);
    await until('the last datagram', async () => heard.includes('last'));
    expect(heard).toEqual(['second', 'last']);
  } finally {
    service.close();
  }
});

async function listen(at: number): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  server.listen(at, '0.0.0.0');
  await once(server, 'listening');
  return server;
}

test('an interface that goes away while it is set up does not stop the others', async () => {
  const bridge = `spt${docker.server.slice(0, 8)}`;
  await exec('ip', ['link', 'add', bridge, 'type', 'bridge']);
  try {
    let busy = true;
    const churn = (async () => {
      for (let n = 0; n < 60; n++) {
        await exec('ip', ['link', 'add', `${bridge}a`, 'type', 'veth', 'peer', 'name', `${bridge}b`]);
        await exec('ip', ['link', 'set', `${bridge}a`, 'master', bridge]);
        await exec('ip', ['link', 'del', `${bridge}a`]);
      }
    })().finally(() => (busy = false));
    const reflecting = (async () => {
      while (busy) await reflect(bridge);
    })();
    const [, reflected] = await Promise.allSettled([churn, reflecting]);
    expect(reflected).toEqual({ status: 'fulfilled', value: undefined });
  } finally {
    await exec('ip', ['link', 'del', bridge]);
  }
});
