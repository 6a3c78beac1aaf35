import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Execution } from '../../../agent-protocol/functions.ts';
import type { Position } from '../../../agent/functions/execution-log.ts';
import { ExecutionLog, kept } from '../../../agent/functions/execution-log.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const log = pino({ level: 'silent' });
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-executions-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const opened = (clock = new FakeClock()) =>
  new ExecutionLog(join(folder, 'functions', 'executions.db'), { clock, log });
const execution = (more: Partial<Execution> = {}): Execution => ({
  id: randomUUID(),
  version_id: 'v',
  trigger: 'http',
  status: 'succeeded',
  started_at: '2030-01-01T00:00:00.000Z',
  cold_start: false,
  method: 'GET',
  path: '/',
  ...more,
});

describe('what is known of calls', () => {
  it('is read newest first, in pages, by status, and after another start', async () => {
    const all = Array.from({ length: 5 }, (_, n) =>
      execution({ status: n % 2 === 0 ? 'succeeded' : 'failed', started_at: `2030-01-01T00:00:0${n}.000Z` }),
    );
    {
      await using store = opened();
      for (const it of all) store.add('one', it);
      store.add('two', execution());
    }
    await using store = opened();
    const newest = all.toReversed();
    const first = await store.read({ function_id: 'one', limit: 2 });
    expect(first).toEqual({ items: newest.slice(0, 2), more: true });
    const next = await store.read({
      function_id: 'one',
      limit: 10,
      before: await store.position('one', newest[1]!.id),
    });
    expect(next).toEqual({ items: newest.slice(2), more: false });
    const failed = await store.read({ function_id: 'one', limit: 10, status: ['failed'] });
    expect(failed.items).toEqual(newest.filter(({ status }) => status === 'failed'));
  });

  it('is in the order of the starts, whatever ends first', async () => {
    await using store = opened();
    const at = (minute: number): string => `2030-01-01T00:0${minute}:00.000Z`;
    const [long, short] = [execution({ started_at: at(1) }), execution({ started_at: at(2) })];
    for (const it of [short, long]) store.add('one', it);
    expect((await store.read({ function_id: 'one', limit: 5 })).items).toEqual([short, long]);
  });

  it('is bounded by number and by age, and goes with its function', async () => {
    const clock = new FakeClock();
    await using store = opened(clock);
    const write = async (of: string, count: number, started_at: string): Promise<void> => {
      for (let n = 0; n < count; n++) store.add(of, execution({ started_at }));
      await store.read({ function_id: of, limit: 1 });
    };
    await write('old', 3, new Date(clock.now().getTime() - kept.ms - 1).toISOString());
    for (let n = 0; n < 51; n++) await write('busy', 30, clock.now().toISOString());
    expect((await store.read({ function_id: 'old', limit: 10 })).items).toEqual([]);
    let count = 0;
    for (let before: Position | undefined, more = true; more;) {
      const page = await store.read({ function_id: 'busy', limit: 200, before });
      count += page.items.length;
      before = await store.position('busy', page.items.at(-1)!.id);
      ({ more } = page);
    }
    // old ones go with every fiftieth write
    expect(count).toBe(kept.count + 30);
    await store.retain(new Set(['other']));
    expect((await store.read({ function_id: 'busy', limit: 10 })).items).toEqual([]);
  });

  it('shows nothing older than it keeps, and has no position of one that it does not know', async () => {
    const clock = new FakeClock();
    await using store = opened(clock);
    store.add('one', execution({ started_at: clock.now().toISOString() }));
    expect((await store.read({ function_id: 'one', limit: 5 })).items).toHaveLength(1);
    expect(await store.position('one', 'gone')).toBeUndefined();
    await clock.advance(kept.ms + 1);
    expect((await store.read({ function_id: 'one', limit: 5 })).items).toEqual([]);
  });

  it('is stored again once its folder can be made', async () => {
    const path = join(folder, 'functions');
    await writeFile(path, 'in the way');
    {
      await using store = opened();
      await expect(store.read({ function_id: 'one', limit: 5 })).rejects.toThrow(/EEXIST|ENOTDIR/);
    }
    await using store = opened();
    await expect(store.read({ function_id: 'one', limit: 5 })).rejects.toThrow(/EEXIST|ENOTDIR/);
    await rm(path);
    expect((await store.read({ function_id: 'one', limit: 5 })).items).toEqual([]);
  });
});
