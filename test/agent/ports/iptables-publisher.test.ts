import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { bridgeOf, reflect } from '../../../agent/ports/bridges.ts';
import { holdIdentity } from '../../../agent/machine/machine-identities.ts';
import { forgetEnded } from '../../../agent/ports/ended-connections.ts';
import { IptablesPublisher, removeRules } from '../../../agent/ports/iptables-publisher.ts';
import { anothersPort, leftPort, takenPort, unansweredPort } from '../../../agent/ports/port-problems.ts';
import { chainsOf, shortOwner } from '../../../agent/ports/rules.ts';
import type { PortBackend, PortProblem } from '../../../agent/ports/port-publisher.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { testDocker, type TestDocker } from '../../harness/docker.ts';
import { ensureTestImages } from '../../harness/test-image.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

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
  publisher = new IptablesPublisher(docker.server, { clock: systemClock, log: silent, takeOver: false });
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
async function publish(...backends: PortBackend[]): Promise<Map<number, PortProblem>> {
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

test(
  'a port leads to its instance from other networks also once the engine has made another network',
  { tags: [longTag] },
  async () => {
    await publish(blue);
    const forward = async () =>
      (await exec('iptables-save')).stdout.split('\n').filter((line) => line.startsWith('-A FORWARD -j '));
    const before = (await forward()).findIndex((line) => line.endsWith('-j DOCKER-ISOLATION-STAGE-1'));
    await elsewhere.runtime.ensureNetwork(
      `sp-${randomUUID().slice(0, 8)}`,
      { [labels.server]: elsewhere.server },
      signal(),
    );
    expect(await hostSeenBy(stranger, outside)).toBe(blue.host);
    // The engine has put its isolation of networks first, so that the test is one.
    const after = await forward();
    expect(before).toBeGreaterThan(0);
    expect(after.findIndex((line) => line.endsWith(chainsOf(docker.server).pass))).toBeGreaterThan(
      after.findIndex((line) => line.endsWith('-j DOCKER-ISOLATION-STAGE-1')),
    );
  },
);

test.each(['before the port is published', 'afterwards'])('what an operator refuses %s stays refused', async (when) => {
  const rule = ['DOCKER-USER', '-d', blue.address, '-p', 'tcp', '-j', 'DROP'];
  if (when !== 'afterwards') await exec('iptables', ['--wait', '5', '-I', ...rule]);
  await publish(blue);
  if (when === 'afterwards') await exec('iptables', ['--wait', '5', '-I', ...rule]);
  try {
    await publish(blue);
    expect(await seenBy(stranger, outside, port)).toBe('silence');
  } finally {
    await exec('iptables', ['--wait', '5', '-D', ...rule]);
  }
  expect(await seenBy(stranger, outside, port)).toBe('answer');
});

/** How requests from these ports of an address of this machine end, all at once. */
function askFrom(ports: readonly number[], path: string): Promise<string[]> {
  return Promise.all(
    ports.map(
      (localPort) =>
        new Promise<string>((resolve) => {
          const to = {
            host: '127.0.0.1',
            port,
            path,
            localPort,
            localAddress: '127.7.7.7',
            agent: false,
            timeout: 8_000,
          };
          const outgoing = request(to, (answer) => answer.resume().on('end', () => resolve('answered')));
          outgoing.on('timeout', () => outgoing.destroy(new Error('no answer')));
          outgoing.on('error', (error) => resolve(error.message));
          outgoing.end();
        }),
    ),
  );
}

test('the end of an instance cuts no connection to another one, also not of a client that comes from the same port', async () => {
  const leaving = await instance(docker);
  const all = Array.from({ length: 1500 }, (_, n) => 20_000 + n);
  const rounds = Array.from({ length: 15 }, (_, n) => all.slice(n * 100, (n + 1) * 100));
  await publish(leaving);
  for (const ports of rounds) expect(new Set(await askFrom(ports, '/'))).toEqual(new Set(['answered']));
  await publish(green);
  await publisher.forgetEnded([leaving.address], signal());
  let stopped = false;
  const stopping = docker.runtime.stop(leaving.id, 5, signal()).then(() => (stopped = true));
  const answers: string[] = [];
  for (const ports of rounds) answers.push(...(await askFrom(ports, '/slow/50')));
  await stopping;
  expect(stopped).toBe(true);
  expect(answers.filter((it) => it !== 'answered')).toEqual([]);
});

test('ended connections to an instance are forgotten, and no others', async () => {
  await publish(blue);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  await ask(`http://127.0.0.1:${port}/`, agent);
  for (let n = 0; n < 5; n++) await hostAt('127.0.0.1');
  await publish(green);
  for (let n = 0; n < 5; n++) await hostAt('127.0.0.1');
  // a connection has ended for both ends a moment after its answer
  let forgotten = 0;
  await until('the ended ones are forgotten', async () => {
    forgotten += await forgetEnded([blue.address], signal());
    return forgotten >= 5;
  });
  expect(await forgetEnded([blue.address], signal())).toBe(0);
  expect(JSON.parse(await ask(`http://127.0.0.1:${port}/`, agent))).toMatchObject({ host: blue.host });
  agent.destroy();
  expect(await forgetEnded([green.address], signal())).toBeGreaterThan(0);
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

/** This process, as who has a port. */
const self = async () => ({ pid: process.pid, name: (await readFile('/proc/self/comm', 'utf8')).trim() });

test('a port that another program has is reported with that program, and the others are published', async () => {
  const program = await listen(port);
  const free = await freePort();
  const wanted = new Map([
    [port, [blue]],
    [free, [green]],
  ]);
  expect(await publisher.apply(wanted, signal())).toEqual(new Map([[port, takenPort(port, await self())]]));
  expect(JSON.parse(await ask(`http://127.0.0.1:${free}/`))).toMatchObject({ host: green.host });
  await expect(ask(`http://127.0.0.1:${port}/`)).rejects.toThrow();
  program.close();
  await once(program, 'close');
  expect(await publisher.apply(wanted, signal())).toEqual(new Map());
  expect(await hostAt('127.0.0.1')).toBe(blue.host);
});

test('two agents of one machine do not have the same port', { tags: [longTag] }, async () => {
  const other = new IptablesPublisher(elsewhere.server, { clock: systemClock, log: silent, takeOver: false });
  try {
    await publish(blue);
    expect(await other.apply(new Map([[port, [stranger]]]), signal())).toEqual(
      new Map([[port, takenPort(port, await self())]]),
    );
    const free = await freePort();
    expect(await other.apply(new Map([[free, [stranger]]]), signal())).toEqual(new Map());
    expect(JSON.parse(await ask(`http://127.0.0.1:${free}/`))).toMatchObject({ host: stranger.host });
    expect(await hostAt('127.0.0.1')).toBe(blue.host);
  } finally {
    await other.close({ remove: true }, signal());
  }
});

test('a port that another agent publishes is reported with the server of that agent', async () => {
  await using held = await holdIdentity(elsewhere.server);
  expect(held).toBeDefined();
  const other = new IptablesPublisher(elsewhere.server, { clock: systemClock, log: silent, takeOver: false });
  try {
    await other.apply(new Map([[port, [stranger]]]), signal());
    expect(await publish(blue)).toEqual(new Map([[port, anothersPort(port, elsewhere.server)]]));
  } finally {
    await other.close({ remove: true }, signal());
  }
});

describe('a port that the rules of an agent lead away which is gone', () => {
  let free: number;
  const former = randomUUID();
  beforeEach(async () => {
    free = await freePort();
    await leave(elsewhere.server, port, free);
  });
  afterEach(async () => {
    for (const owner of [elsewhere.server, former]) await removeRules(owner, systemClock, signal());
  });

  /** Rules of an agent that ended. */
  async function leave(owner: string, ...left: number[]): Promise<void> {
    const other = new IptablesPublisher(owner, { clock: systemClock, log: silent, takeOver: true });
    expect(await other.apply(new Map(left.map((one) => [one, [stranger]])), signal())).toEqual(new Map());
    await other.close({ remove: false }, signal());
  }

  test('is reported, and not published', async () => {
    expect(await publish(blue)).toEqual(new Map([[port, leftPort(port, shortOwner(elsewhere.server))]]));
    expect(await hostAt('127.0.0.1')).toBe(stranger.host);
    // It is not kept from others either.
    const program = await listen(port);
    program.close();
    await once(program, 'close');
  });

  test('is published once that was cleaned up', { tags: [longTag] }, async () => {
    await publish(blue);
    await removeRules(elsewhere.server, systemClock, signal());
    expect(await publish(blue)).toEqual(new Map());
    expect(await hostAt('127.0.0.1')).toBe(blue.host);
  });

  test('is taken over where the agent was asked to, and its other ports stay', { tags: [longTag] }, async () => {
    publisher = new IptablesPublisher(docker.server, { clock: systemClock, log: silent, takeOver: true });
    expect(await publish(blue)).toEqual(new Map());
    for (const address of ['127.0.0.1', outside]) expect(await hostAt(address)).toBe(blue.host);
    expect(JSON.parse(await ask(`http://127.0.0.1:${free}/`))).toMatchObject({ host: stranger.host });
  });

  test('is taken over from all agents that left it', { tags: [longTag] }, async () => {
    await leave(former, free);
    // Both have it again.
    await leave(elsewhere.server, port);
    await leave(former, port);
    await exec('iptables', ['--wait', '5', '-t', 'nat', '-A', ...destination(elsewhere.server)]);
    expect((await publish(blue)).get(port)?.message).toContain('left');
    publisher = new IptablesPublisher(docker.server, { clock: systemClock, log: silent, takeOver: true });
    expect(await publish(blue)).toEqual(new Map());
    for (const address of ['127.0.0.1', outside]) expect(await hostAt(address)).toBe(blue.host);
  });

  function destination(owner: string): string[] {
    const to = `${stranger.address}:${stranger.port}`;
    return [
      chainsOf(owner).ports,
      '-p',
      'tcp',
      '-m',
      'tcp',
      '--dport',
      `${port}`,
      '-j',
      'DNAT',
      '--to-destination',
      to,
    ];
  }
});

describe('a port that does not lead to its instance', () => {
  test('is reported where nothing listens on the instance, until something does', async () => {
    expect(await publish({ ...blue, port: 1 })).toEqual(new Map([[port, unansweredPort(port, 'ECONNREFUSED')]]));
    expect(await publish(blue)).toEqual(new Map());
  });

  test('is reported where the instance is gone', { tags: [longTag] }, async () => {
    const gone = { ...blue, address: blue.address.replace(/\d+$/, '254') };
    const problems = await publish(gone);
    expect(problems.get(port)?.code).toBe('runtime_unavailable');
    expect(problems.get(port)?.message).toMatch(/a connection to it failed \((EHOSTUNREACH|ETIMEDOUT)\)/);
  });

  test('is reported where a rule of another program comes first', async () => {
    await publish(blue);
    const ahead = ['-t', 'nat', '-I', 'OUTPUT', '1', '-p', 'tcp', '--dport', String(port), '-j', 'ACCEPT'];
    await exec('iptables', ['--wait', '5', ...ahead]);
    try {
      await publish(green);
      expect((await publish(blue, green)).get(port)).toEqual(unansweredPort(port, 'ECONNRESET'));
    } finally {
      await exec('iptables', [
        '--wait',
        '5',
        ...ahead.map((it) => (it === '-I' ? '-D' : it)).filter((it) => it !== '1'),
      ]);
    }
    expect(await publish(blue, green)).toEqual(new Map());
  });
});

test('ports stay published while the agent is away, and the next one takes them over', async () => {
  await publish(blue);
  await publisher.close({ remove: false }, signal());
  expect(await hostAt('127.0.0.1')).toBe(blue.host);
  publisher = new IptablesPublisher(docker.server, { clock: systemClock, log: silent, takeOver: false });
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

/** What comes of a connection from inside of an instance: the code of its error, `answer` or `silence`. */
async function seenBy(from: Instance, address: string, at: number): Promise<string> {
  const script = `require('net').connect(${at}, '${address}').on('connect', () => console.log('answer')).on('error', (e) => console.log(e.code)).setTimeout(3000, function () { console.log('silence'); this.destroy(); }).on('connect', function () { this.destroy(); })`;
  const { stdout } = await exec('nsenter', ['-t', `${from.pid}`, '-n', process.execPath, '-e', script]);
  return stdout.trim();
}

test.each(['169.254.169.254', '169.254.170.2'])('SEC-24 an instance does not reach %s, of a cloud', async (address) => {
  await publisher.apply(new Map(), signal());
  expect(await seenBy(green, address, 80)).toBe('ECONNREFUSED');
  expect((await rulesOf(docker.server)).join('\n')).toContain('-d 169.254.0.0/16 -i sp-+ -j REJECT');
  await publisher.close({ remove: true }, signal());
  expect(await rulesOf(docker.server)).toEqual([]);
});

test('SEC-24 nor does one in a network that the engine has made since', async () => {
  await publisher.guard(signal());
  await using later = await testDocker();
  expect(await seenBy(await instance(later), '169.254.169.254', 80)).toBe('ECONNREFUSED');
});

test('what is blocked before it is known which ports there are leaves what is blocked already', async () => {
  const own = async () => (await rulesOf(docker.server)).toSorted();
  publisher.admit([8443]);
  await publisher.apply(new Map(), signal());
  const before = await own();
  const next = new IptablesPublisher(docker.server, { clock: systemClock, log: silent, takeOver: false });
  await next.guard(signal());
  expect(await own()).toEqual(before);
  const { guard } = chainsOf(docker.server);
  await exec('iptables', ['--wait', '5', '-D', 'FORWARD', '-j', guard]);
  await next.guard(signal());
  expect(await own()).toEqual(before);
});

test('SEC-24 an instance does not reach what listens on the machine, but published ports and a resolver', async () => {
  const service = createServer((socket) => socket.destroy()).listen(0, '0.0.0.0');
  await once(service, 'listening');
  const at = (service.address() as AddressInfo).port;
  try {
    await publish(blue);
    for (const address of [outside, bridgeOf(green.address)!.subnet.split('/')[0]!])
      expect(await seenBy(green, address, at)).toBe('ECONNREFUSED');
    expect(await seenBy(green, outside, port)).toBe('answer');
    const lines = await rulesOf(docker.server);
    // Those of another agent would do the same.
    expect(lines).toContain(`-A INPUT -i sp-+ -j ${chainsOf(docker.server).host}`);
    expect(lines.filter((line) => line.includes('--dport 53'))).toHaveLength(2);
  } finally {
    service.close();
  }
});

test('the same is closed by IPv6', async () => {
  await publisher.apply(new Map(), signal());
  const { guard, host } = chainsOf(docker.server);
  const own = async () =>
    (await exec('ip6tables-save')).stdout.split('\n').filter((line) => line.includes(guard) || line.includes(host));
  const lines = await own();
  for (const range of ['fe80::/10', 'fd00:ec2::254/128'])
    expect(lines).toContain(`-A ${guard} -d ${range} -i sp-+ -j REJECT --reject-with icmp6-port-unreachable`);
  expect(lines).toContain(`-A INPUT -i sp-+ -j ${host}`);
  expect(lines.at(-1)).toBe(`-A ${host} -j REJECT --reject-with icmp6-port-unreachable`);
  await publisher.apply(new Map(), signal());
  expect(await own()).toEqual(lines);
  await publisher.close({ remove: true }, signal());
  expect(await own()).toEqual([]);
});

describe('where /sys may not be written', () => {
  /** Runs code in a mount namespace of its own, whose /sys is as in an unprivileged container. */
  async function confined(code: string, ...wrapper: string[]): Promise<string> {
    const mounted = `require('node:child_process').execFileSync('mount', ['-o', 'remount,bind,ro', '/sys']);`;
    const script = `${mounted} const { reflect } = await import('${new URL('../../../agent/ports/bridges.ts', import.meta.url).href}'); ${code}`;
    const inline = script.replace("require('node:child_process')", "(await import('node:child_process'))");
    const argv = ['--mount', ...wrapper, process.execPath, '--input-type=module', '-e', inline];
    return (await exec('unshare', argv)).stdout.trim();
  }

  const modes = async (bridge: string): Promise<string[]> => {
    const folder = `/sys/class/net/${bridge}/brif`;
    const names = await readdir(folder);
    return Promise.all(names.map(async (name) => (await readFile(`${folder}/${name}/hairpin_mode`, 'utf8')).trim()));
  };

  let one: TestDocker;
  let bridge: string;
  beforeEach(async () => {
    one = await testDocker();
    bridge = bridgeOf((await instance(one)).address)!.name;
  });
  afterEach(() => one[Symbol.asyncDispose]());

  test('an instance is let reach itself all the same', async () => {
    expect(await modes(bridge)).toEqual(['0']);
    await confined(`await reflect('${bridge}', AbortSignal.timeout(5000));`);
    expect(await modes(bridge)).toEqual(['1']);
  });

  test('an interface that leaves the bridge meanwhile does not stop the others', { tags: [longTag] }, async () => {
    await churned((churning) =>
      confined(`for (let n = 0; n < 400; n++) await reflect('${churning}', AbortSignal.timeout(5000));`),
    );
  });

  test('it is reported where the kernel refuses that, too', { tags: [longTag] }, async () => {
    const message = await confined(
      `const { setegid, seteuid } = process; setegid.call(process, 65534); seteuid.call(process, 65534);
       await reflect('${bridge}', AbortSignal.timeout(5000)).catch((error) => console.log(error.message));`,
    );
    expect(message).toMatch(/^Cannot set hairpin mode of \S+: .*not permitted/i);
    expect(await modes(bridge)).toEqual(['0']);
  });
});

test('nothing but the guard is left when no port is published', async () => {
  const sysctl = `/proc/sys/net/ipv4/conf/${bridgeOf(blue.address)!.name}/route_localnet`;
  await publish(blue);
  expect((await readFile(sysctl, 'utf8')).trim()).toBe('1');
  await publisher.apply(new Map(), signal());
  expect((await readFile(sysctl, 'utf8')).trim()).toBe('0');
  const { guard, host } = chainsOf(docker.server);
  const others = (await rulesOf(docker.server)).filter((line) => !line.includes(guard) && !line.includes(host));
  expect(others).toEqual([]);
  await (await listen(port))[Symbol.asyncDispose]();
});

test('SEC-24 an instance does not reach what listens on 127.0.0.1 of the machine', async () => {
  // On a bridge that is none of ours by its name, as agents of earlier releases made them: there this is the only fence.
  const network = `spt-${docker.server.slice(0, 8)}`;
  await docker.runtime.ensureNetwork(network, { [labels.server]: docker.server }, signal());
  const plain = await instance({
    ...docker,
    network,
    spec: (changes) => docker.spec({ networks: [{ name: network, aliases: ['test'] }], ...changes }),
  });
  const heard: string[] = [];
  const service = createSocket('udp4', (message) => heard.push(message.toString()));
  service.bind(0, '127.0.0.1');
  await once(service, 'listening');
  const send = `const [, text] = process.argv; const s = require('dgram').createSocket('udp4'); s.send(text, ${service.address().port}, '127.0.0.1', () => s.close())`;
  const inside = (...args: string[]): Promise<unknown> => exec('nsenter', ['-t', `${plain.pid}`, '-n', ...args]);
  const attack = (text: string): Promise<unknown> => inside(process.execPath, '-e', send, text);
  try {
    await publish(plain);
    // The instance sends what is for its own loopback to the machine instead.
    const gateway = bridgeOf(plain.address)!.subnet.split('/')[0]!;
    await inside('ip', 'route', 'del', 'local', '127.0.0.0/8', 'dev', 'lo', 'table', 'local');
    await inside('ip', 'route', 'del', 'local', '127.0.0.1', 'dev', 'lo', 'table', 'local');
    await inside('ip', 'route', 'add', '127.0.0.1/32', 'via', gateway, 'dev', 'eth0', 'src', plain.address);
    await attack('first');
    // Without the protection it gets through, so the attack is a real one.
    await exec('iptables', ['--wait', '5', '-t', 'raw', '-F', chainsOf(docker.server).loop]);
    await attack('second');
    await publish(plain);
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

/** Interfaces come to a bridge and go while the work on it is under way. */
async function churned(work: (bridge: string) => Promise<unknown>): Promise<void> {
  const bridge = `spt${docker.server.slice(0, 8)}`;
  await exec('ip', ['link', 'add', bridge, 'type', 'bridge']);
  try {
    let busy = true;
    const working = work(bridge).finally(() => (busy = false));
    const churn = (async () => {
      for (let n = 0; n < 1000 && busy; n++) {
        await exec('ip', ['link', 'add', `${bridge}a`, 'type', 'veth', 'peer', 'name', `${bridge}b`]);
        for (const master of [['master', bridge], ['nomaster'], ['master', bridge], ['nomaster'], ['master', bridge]])
          await exec('ip', ['link', 'set', `${bridge}a`, ...master]);
        await exec('ip', ['link', 'del', `${bridge}a`]);
      }
    })();
    await Promise.all([working, churn]);
  } finally {
    await exec('ip', ['link', 'del', bridge]);
  }
}

test('an interface that goes away while it is set up does not stop the others', async () => {
  await churned(async (bridge) => {
    for (let n = 0; n < 400; n++) await reflect(bridge, signal());
  });
});
