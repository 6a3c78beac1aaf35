import { mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PortPolicy } from '../../../agent-protocol/port-policy.ts';
import type { Offer } from '../../../agent/ports/port-claims.ts';
import type { PortBackend, PortProblem } from '../../../agent/ports/port-publisher.ts';
import { Publication } from '../../../agent/ports/publication.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { idle } from '../../harness/idle.ts';

let dir: string;
let clock: FakeClock;
let applied: [number, readonly PortBackend[]][][];
let problems: Map<number, PortProblem>;
let broken: boolean;
let guards: number;
/** The assignments of which the publication reported a change, in order. */
let changes: [string, string | undefined][];
let publication: Publication;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-ports-'));
  clock = new FakeClock();
  applied = [];
  problems = new Map();
  broken = false;
  guards = 0;
  changes = [];
  publication = await open();
});
afterEach(async () => {
  await publication[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

function open(): Promise<Publication> {
  return Publication.open({
    publisher: {
      admit: () => undefined,
      guard: async () => {
        guards += 1;
        await Promise.resolve();
        if (broken) throw new Error('iptables: command not found');
      },
      forgetEnded: () => Promise.resolve(),
      notices: new Map(),
      apply: async (ports) => {
        await Promise.resolve();
        if (broken) throw new Error('iptables: command not found');
        applied.push([...ports]);
        return problems;
      },
    },
    path: join(dir, 'ports.json'),
    isSetKnown: true,
    clock,
    log: pino({ level: 'silent' }),
    changed: (ids) => {
      for (const id of ids) changes.push([id, publication.problem(id)?.message]);
    },
  });
}

const backend = (n: number): PortBackend => ({ address: `10.0.0.${n}`, port: 8080 });

function offered(workload: string, port: number, to: PortBackend | undefined, project = 'p'): Offer {
  return { workload, project, port, backend: to };
}

const taken = (port: number): PortProblem => ({ code: 'port_taken', message: `Port ${port} is taken` });

test('nothing changes before every instance was looked at', async () => {
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  expect(applied).toEqual([]);
  publication.offer('b', offered('w', 80, backend(2)));
  void publication.release();
  await idle();
  expect(applied).toEqual([[[80, [backend(1), backend(2)]]]]);
});

test('what instances must not reach is blocked from the beginning, and until ports follow the offers', async () => {
  expect(guards).toBe(1);
  broken = true;
  await clock.advance(5_000);
  broken = false;
  await clock.advance(5_000);
  expect([guards, applied]).toEqual([3, []]);
  await publication.release();
  await clock.advance(20_000);
  expect(guards).toBe(3);
  expect(applied.length).toBeGreaterThan(1);
});

test('the first workload that asks for a port has it, also after a restart', async () => {
  void publication.release();
  publication.offer('a', offered('first', 80, undefined));
  await idle();
  publication.offer('b', offered('second', 80, backend(2)));
  await idle();
  expect(applied.at(-1)).toEqual([[80, []]]);
  expect(publication.problem('b')).toEqual({
    code: 'port_taken',
    message:
      'Port 80 of the server belongs to another application: choose another exposed_port, or stop that application, then deploy again',
  });
  await publication[Symbol.asyncDispose]();
  publication = await open();
  publication.offer('b', offered('second', 80, backend(2)));
  publication.offer('a', offered('first', 80, backend(1)));
  void publication.release();
  await idle();
  expect(applied.at(-1)).toEqual([[80, [backend(1)]]]);
});

test('what was refused a port gets it by a new instance only, also after a restart', async () => {
  void publication.release();
  publication.offer('a', offered('first', 80, backend(1)));
  publication.offer('b', offered('second', 80, backend(2)));
  await idle();
  publication.offer('a');
  await idle();
  expect(applied.at(-1)).toEqual([]);
  await publication[Symbol.asyncDispose]();
  publication = await open();
  publication.offer('b', offered('second', 80, backend(2)));
  await publication.release();
  await clock.advance(60_000);
  await idle();
  expect(applied.at(-1)).toEqual([]);
  expect(publication.problem('b')?.code).toBe('port_taken');
  publication.offer('b2', offered('second', 80, backend(3)));
  await idle();
  expect(applied.at(-1)).toEqual([[80, [backend(3)]]]);
  expect(publication.isPublished('b2')).toBe(true);
});

test('a port that another program has is not waited for', async () => {
  await publication.release();
  problems.set(80, taken(80));
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  expect(publication.problem('a')).toEqual(taken(80));
  problems.clear();
  const before = applied.length;
  await clock.advance(60_000);
  await idle();
  expect(applied.slice(before).flat()).toEqual([]);
  expect(publication.problem('a')).toEqual(taken(80));
  expect(publication.isPublished('a')).toBe(false);
});

test('a port that was had is tried again until it is had again', async () => {
  await publication.release();
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  expect(publication.isPublished('a')).toBe(true);
  await publication[Symbol.asyncDispose]();
  publication = await open();
  problems.set(80, taken(80));
  publication.offer('a', offered('w', 80, backend(1)));
  await publication.release();
  expect(publication.problem('a')).toEqual(taken(80));
  problems.clear();
  await clock.advance(5_000);
  await idle();
  expect(publication.problem('a')).toBeUndefined();
  expect(publication.isPublished('a')).toBe(true);
});

test('claims that an earlier release wrote count as ports that were had', async () => {
  await publication[Symbol.asyncDispose]();
  await writeFile(join(dir, 'ports.json'), '[[80,"w"]]');
  publication = await open();
  problems.set(80, taken(80));
  publication.offer('b', offered('other', 80, backend(2)));
  publication.offer('a', offered('w', 80, backend(1)));
  await publication.release();
  problems.clear();
  await clock.advance(5_000);
  await idle();
  expect(publication.isPublished('a')).toBe(true);
});

const policy: PortPolicy = {
  from: 1024,
  to: 40_000,
  reserved: [9000],
  own: [7070],
  bindings: [{ port: 9100, project_id: 'p' }],
};

test.each([
  [80, 'Port 80 is not among the ports that applications may take on this server, 1024 to 40000'],
  [40_001, 'Port 40001 is not among the ports that applications may take on this server, 1024 to 40000'],
  [9000, 'Port 9000 of the server is reserved'],
  [7070, 'Port 7070 is that of the control plane'],
])('port %i, which the server does not give to applications, is refused', async (port, message) => {
  publication.allow(policy);
  await publication.release();
  publication.offer('a', offered('w', port, backend(1)));
  await idle();
  expect(publication.problem('a')?.code).toBe('port_taken');
  expect(publication.problem('a')?.message).toContain(message);
  expect(applied.at(-1)).toEqual([]);
});

test('a port that is bound to a project is for its applications alone', async () => {
  publication.allow(policy);
  await publication.release();
  publication.offer('a', offered('stranger', 9100, backend(1), 'q'));
  await idle();
  expect(publication.problem('a')?.message).toContain('Port 9100 of the server is kept for another project');
  publication.offer('b', offered('w', 9100, backend(2)));
  await idle();
  expect(publication.isPublished('b')).toBe(true);
});

test('what a server allows is known after a restart, before the control plane is heard', async () => {
  publication.allow(policy);
  await publication.release();
  await idle();
  await publication[Symbol.asyncDispose]();
  publication = await open();
  publication.offer('a', offered('w', 7070, backend(1)));
  await publication.release();
  expect(publication.problem('a')?.message).toContain('Port 7070 is that of the control plane');
});

test('a port that was had before the range changed stays; one that is reserved or bound to others ends', async () => {
  await publication.release();
  for (const port of [80, 9000, 9100]) publication.offer(`a${port}`, offered(`w${port}`, port, backend(1), 'q'));
  await idle();
  publication.allow(policy);
  await idle();
  expect([80, 9000, 9100].map((port) => publication.isPublished(`a${port}`))).toEqual([true, false, false]);
  publication.allow({ ...policy, reserved: [], bindings: [] });
  await idle();
  expect(publication.isPublished('a9000')).toBe(true);
});

test('a withdrawal resolves once no port leads to the instance', async () => {
  void publication.release();
  publication.offer('a', offered('w', 80, backend(1)));
  publication.offer('b', offered('w', 80, backend(2)));
  await idle();
  expect(await publication.withdraw('a')).toBe(true);
  expect(applied.at(-1)).toEqual([[80, [backend(2)]]]);
  expect(publication.isPublished('a')).toBe(false);
  expect(await publication.withdraw('a')).toBe(false);
});

test('what cannot be published is reported and tried again; what is published is looked after', async () => {
  void publication.release();
  broken = true;
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  expect(publication.problem('a')).toMatchObject({
    code: 'runtime_unavailable',
    message: expect.stringContaining('cannot publish ports'),
  });
  expect(publication.isPublished('a')).toBe(false);
  broken = false;
  await clock.advance(5_000);
  await idle();
  expect(publication.isPublished('a')).toBe(true);
  const before = applied.length;
  await clock.advance(5_000);
  await idle();
  expect(applied.length).toBe(before + 1);
});

test('what is published stays published while rules cannot be applied, and only what is new waits', async () => {
  await publication.release();
  publication.offer('a', offered('w', 80, backend(1)));
  publication.offer('moved', offered('v', 81, backend(2)));
  await idle();
  broken = true;
  publication.offer('b', offered('x', 82, backend(3)));
  publication.offer('moved', offered('v', 81, backend(4)));
  await idle();
  expect(['a', 'moved', 'b'].map((id) => publication.isPublished(id))).toEqual([true, false, false]);
  expect(['a', 'moved', 'b'].map((id) => publication.problem(id)?.code)).toEqual([
    undefined,
    'runtime_unavailable',
    'runtime_unavailable',
  ]);
  expect(changes.filter(([id]) => id === 'a')).toHaveLength(1);
});

test('while claims cannot be written, what is published stays so, and a new claim is made once they can', async () => {
  await publication.release();
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  await mkdir(join(dir, 'ports.json.new'));
  publication.offer('b', offered('x', 81, backend(2)));
  await idle();
  expect(publication.isPublished('a')).toBe(true);
  expect(publication.problem('a')).toBeUndefined();
  expect(publication.problem('b')?.code).toBe('runtime_unavailable');
  await rmdir(join(dir, 'ports.json.new'));
  await clock.advance(5_000);
  await idle();
  expect(publication.isPublished('b')).toBe(true);
  await publication[Symbol.asyncDispose]();
  publication = await open();
  publication.offer('c', offered('y', 81, backend(3)));
  publication.offer('b', offered('x', 81, backend(2)));
  await publication.release();
  expect(publication.problem('c')?.code).toBe('port_taken');
});

test('what is published stays so while its port does not answer for a new instance', async () => {
  await publication.release();
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  problems.set(80, { code: 'runtime_unavailable', message: 'Port 80 does not answer' });
  publication.offer('b', offered('w', 80, backend(2)));
  await idle();
  expect(['a', 'b'].map((id) => publication.isPublished(id))).toEqual([true, false]);
  problems.clear();
  await clock.advance(5_000);
  await idle();
  expect(publication.isPublished('b')).toBe(true);
});

test('a damaged file of claims is as good as none', async () => {
  await publication[Symbol.asyncDispose]();
  await writeFile(join(dir, 'ports.json'), '{"80');
  publication = await open();
  void publication.release();
  publication.offer('a', offered('w', 80, backend(1)));
  await idle();
  expect(publication.isPublished('a')).toBe(true);
});

test('a port that is asked for while other claims are being written is not reported as taken', async () => {
  await publication.release();
  for (let n = 1; n <= 20; n += 1) {
    publication.offer(`a${n}`, offered(`w${n}`, 80 + n, backend(n)));
    // One turn of the event loop: the claims of the first are on their way to the disk.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await idle();
  expect(changes.filter(([, problem]) => problem !== undefined)).toEqual([]);
  expect(publication.isPublished('a20')).toBe(true);
});
