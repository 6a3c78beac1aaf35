import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PortBackend } from '../../agent/publication.ts';
import { Publication } from '../../agent/publication.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';

let dir: string;
let clock: FakeClock;
let applied: [number, readonly PortBackend[]][][];
let problems: Map<number, string>;
let broken: boolean;
/** What was told of each assignment, in order. */
let told: [string, string | undefined][];
let publication: Publication;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-ports-'));
  clock = new FakeClock();
  applied = [];
  problems = new Map();
  broken = false;
  told = [];
  publication = await open();
});
afterEach(async () => {
  await publication[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

function open(): Promise<Publication> {
  return Publication.open({
    publisher: {
      apply: async (ports) => {
        await Promise.resolve();
        if (broken) throw new Error('iptables: command not found');
        applied.push([...ports]);
        return problems;
      },
    },
    path: join(dir, 'ports.json'),
    clock,
    log: pino({ level: 'silent' }),
    changed: (ids) => {
      for (const id of ids) told.push([id, publication.problem(id)]);
    },
  });
}

/** Real time for the file of claims. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await new Promise((resolve) => setTimeout(resolve, 1));
  await settle();
}

const backend = (n: number): PortBackend => ({ address: `10.0.0.${n}`, port: 8080 });

test('nothing changes before every instance was looked at', async () => {
  publication.offer('a', { workload: 'w', port: 80, backend: backend(1) });
  await quiet();
  expect(applied).toEqual([]);
  publication.offer('b', { workload: 'w', port: 80, backend: backend(2) });
  void publication.release();
  await quiet();
  expect(applied).toEqual([[[80, [backend(1), backend(2)]]]]);
});

test('the first workload that asks for a port has it, also after a restart, until it asks no more', async () => {
  void publication.release();
  publication.offer('a', { workload: 'first', port: 80, backend: undefined });
  await quiet();
  publication.offer('b', { workload: 'second', port: 80, backend: backend(2) });
  await quiet();
  expect(applied.at(-1)).toEqual([[80, []]]);
  expect(publication.problem('b')).toBe('Port 80 of the server belongs to another application');
  await publication[Symbol.asyncDispose]();
  publication = await open();
  publication.offer('b', { workload: 'second', port: 80, backend: backend(2) });
  publication.offer('a', { workload: 'first', port: 80, backend: backend(1) });
  void publication.release();
  await quiet();
  expect(applied.at(-1)).toEqual([[80, [backend(1)]]]);
  publication.retract('a');
  await quiet();
  expect(applied.at(-1)).toEqual([[80, [backend(2)]]]);
  expect(publication.isPublished('b')).toBe(true);
  expect(JSON.parse(await readFile(join(dir, 'ports.json'), 'utf8'))).toEqual([[80, 'second']]);
});

test('a withdrawal resolves once no port leads to the instance', async () => {
  void publication.release();
  publication.offer('a', { workload: 'w', port: 80, backend: backend(1) });
  publication.offer('b', { workload: 'w', port: 80, backend: backend(2) });
  await quiet();
  expect(await publication.withdraw('a')).toBe(true);
  expect(applied.at(-1)).toEqual([[80, [backend(2)]]]);
  expect(publication.isPublished('a')).toBe(false);
  expect(await publication.withdraw('a')).toBe(false);
});

test('what cannot be published is told and tried again; what is published is looked after', async () => {
  void publication.release();
  broken = true;
  publication.offer('a', { workload: 'w', port: 80, backend: backend(1) });
  await quiet();
  expect(publication.problem('a')).toContain('cannot be published');
  expect(publication.isPublished('a')).toBe(false);
  broken = false;
  await clock.advance(5_000);
  await quiet();
  expect(publication.isPublished('a')).toBe(true);
  const before = applied.length;
  await clock.advance(30_000);
  await quiet();
  expect(applied.length).toBe(before + 1);
});

test('a damaged file of claims is as good as none', async () => {
  await publication[Symbol.asyncDispose]();
  await writeFile(join(dir, 'ports.json'), '{"80');
  publication = await open();
  void publication.release();
  publication.offer('a', { workload: 'w', port: 80, backend: backend(1) });
  await quiet();
  expect(publication.isPublished('a')).toBe(true);
});

test('a port that is asked for while other claims are being written is not told to be taken', async () => {
  await publication.release();
  for (let n = 1; n <= 20; n += 1) {
    publication.offer(`a${n}`, { workload: `w${n}`, port: 80 + n, backend: backend(n) });
    // One turn of the event loop: the claims of the first are on their way to the disk.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await quiet();
  expect(told.filter(([, problem]) => problem !== undefined)).toEqual([]);
  expect(publication.isPublished('a20')).toBe(true);
});
