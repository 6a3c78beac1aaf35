import { appendFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import { OutdatedItem } from '../../../agent-protocol/desired-chain.ts';
import { deltaMessages } from '../../../agent-protocol/desired-parts.ts';
import type { Piece } from '../../../agent-protocol/desired-parts.ts';
import { bounds } from '../../../agent-protocol/timing.ts';
import { DesiredSet } from '../../../agent/desired/desired.ts';
import { deriveKey, Journal } from '../../../agent/disk/journal.ts';
import { Ledger } from '../../../agent/engine/ledger.ts';
import type { Container } from '../../../agent/runtime/runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { failNextOf } from '../../harness/failing-files.ts';
import { service } from '../agent-world.ts';

let dir: string;
let path: string;
const key = deriveKey(Buffer.from('secret'), 'test');
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-desired-'));
  path = join(dir, 'desired');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function at(revision: number, incarnation = 'one') {
  return { incarnation, revision };
}

async function reopened<T>(use: (set: DesiredSet) => T | Promise<T>): Promise<T> {
  await using set = await DesiredSet.open(path, key);
  return await use(set);
}

describe('the desired set', () => {
  test('is there again after a restart, with its position, readable by its owner only and by nobody without the key', async () => {
    const [a, b] = [service({}, { env: { PASSWORD: 'correct horse' } }), service()];
    await reopened(async (set) => {
      expect(set.position()).toBeUndefined();
      await set.snapshot(at(5), [a]);
      await set.delta(7, [b], []);
    });
    await reopened((set) => {
      expect(set.position()).toEqual(at(7));
      expect([...set.all()]).toEqual([a, b]);
      expect(set.confirmed).toBe(false);
    });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await readFile(path)).includes('correct horse')).toBe(false);
    await using other = await DesiredSet.open(path, deriveKey(Buffer.from('other'), 'test'));
    expect(other.position()).toBeUndefined();
  });

  test('cut anywhere is the last complete state that came before', async () => {
    const items = Array.from({ length: 5 }, () => service());
    const ends: number[] = [];
    await reopened(async (set) => {
      await set.snapshot(at(1), []);
      ends.push((await stat(path)).size);
      for (const [index, item] of items.entries()) {
        await set.delta(index + 2, [item], []);
        ends.push((await stat(path)).size);
      }
    });
    const whole = await readFile(path);
    for (let length = ends[0]!; length <= whole.length; length += 7) {
      await writeFile(path, whole.subarray(0, length));
      const complete = ends.filter((end) => end <= length).length;
      await reopened(async (set) => {
        expect(set.position()).toEqual(at(complete));
        expect([...set.all()]).toEqual(items.slice(0, complete - 1));
        await set.delta(100, [service()], []);
      });
      await reopened((set) => expect([...set.all()]).toHaveLength(complete));
    }
    await writeFile(path, Buffer.concat([whole, Buffer.alloc(5_000)]));
    await reopened((set) => expect(set.position()).toEqual(at(6)));
  });

  test('takes a change after one that left it unknown what is on disk', async () => {
    const [a, b] = [service(), service()];
    await reopened(async (set) => {
      await set.snapshot(at(1), [a]);
      await failNextOf('datasync');
      await failNextOf('truncate');
      await expect(set.delta(2, [b], [])).rejects.toThrow(`Cannot append to ${path}`);
      expect(set.position()).toEqual(at(1));
      await set.delta(2, [b], [a.id]);
    });
    await reopened((set) => {
      expect(set.position()).toEqual(at(2));
      expect([...set.all()]).toEqual([b]);
    });
  });

  test('that was damaged is none, which is not an empty one', async () => {
    await reopened(async (set) => {
      await set.snapshot(at(1), [service()]);
      await set.delta(2, [service()], []);
    });
    const whole = await readFile(path);
    for (const offset of [0, 3, 10, 40, 100, 400]) {
      const damaged = Buffer.from(whole);
      damaged[offset] = damaged[offset]! ^ 0xff;
      await writeFile(path, damaged);
      await reopened(async (set) => {
        expect(set.position()).toBeUndefined();
        await expect(set.delta(3, [], [])).rejects.toThrow('there is no desired set');
      });
    }
    for (const scrap of ['', 'x', '{}']) {
      await writeFile(path, scrap);
      await reopened((set) => expect(set.position()).toBeUndefined());
    }
    await reopened(async (set) => set.snapshot(at(9), []));
    await reopened((set) => expect(set.position()).toEqual(at(9)));
  });

  test('refuses lower generations within one history and takes them after a rewind', async () => {
    const item = service({ generation: 5 });
    const old = { ...item, generation: 4, spec_hash: 'old' };
    await reopened(async (set) => {
      await set.snapshot(at(10), [item]);
      await expect(set.delta(11, [service(), old], [])).rejects.toThrow(OutdatedItem);
      expect([set.position(), [...set.all()]]).toEqual([at(10), [item]]);
      await set.snapshot(at(12), [old]);
      expect(set.get(item.id)).toEqual(item);
      await set.delta(13, [], [item.id]);
      await expect(set.delta(14, [old], [])).rejects.toThrow(OutdatedItem);
      expect(set.get(item.id)).toBeUndefined();
    });
    await reopened(async (set) => {
      await expect(set.delta(15, [old], [])).rejects.toThrow(OutdatedItem);
      expect(set.get(item.id)).toBeUndefined();
      expect(await set.snapshot(at(1, 'two'), [old])).toEqual(new Set([item.id]));
      expect(set.get(item.id)).toEqual(old);
    });
  });

  test.each([
    ['is of another incarnation', at(50, 'two')],
    ['goes back to a lower revision', at(50)],
  ])('that %s forgets the generations of what is kept and what is gone', async (_, position) => {
    const [kept, gone, before] = [service({ generation: 3 }), service({ generation: 3 }), service({ generation: 3 })];
    const anew = [kept, gone, before].map((item) => ({ ...item, generation: 1, spec_hash: 'new' }));
    await reopened(async (set) => {
      await set.snapshot(at(99), [kept, gone, before]);
      await set.delta(100, [], [before.id]);
      await set.snapshot(position, [], [kept.id]);
      expect([...set.all()]).toEqual([{ ...kept, generation: 0 }]);
    });
    await reopened(async (set) => {
      await set.delta(51, anew, []);
      expect([...set.all()].map((it) => [it.id, it.generation, it.spec_hash])).toEqual(
        anew.map((it) => [it.id, 1, 'new']),
      );
    });
  });

  test('keeps what it is asked to keep in the same history, at its generation', async () => {
    const [kept, gone] = [service({ generation: 3 }), service()];
    await reopened(async (set) => {
      await set.snapshot(at(1), [kept, gone]);
      await set.snapshot(at(2), [], [kept.id, 'unknown']);
      expect([...set.all()]).toEqual([kept]);
    });
  });

  test('remembers what left it until the control plane knows that nothing is left', async () => {
    const [a, b, c] = [service(), service(), service()];
    await reopened(async (set) => {
      await set.snapshot(at(1), [a, b, c]);
      await set.delta(2, [], [a.id]);
      await set.snapshot(at(3), [c]);
      expect(set.unsettled().toSorted()).toEqual([a.id, b.id].toSorted());
      await set.settle([a.id, c.id]);
    });
    await reopened(async (set) => {
      expect(set.unsettled()).toEqual([b.id]);
      expect(set.tombstone(a.id)).toMatchObject({ generation: 1, acknowledged: true });
      await set.delta(4, [{ ...b, generation: 2 }], []);
      expect(set.unsettled()).toEqual([]);
    });
  });

  test('stays small however many changes there are', async () => {
    const item = service();
    await reopened(async (set) => {
      await set.snapshot(at(0), [item]);
      for (let revision = 1; revision <= 1_500; revision += 1)
        await set.delta(revision, [{ ...item, generation: revision }], []);
    });
    expect((await stat(path)).size).toBeLessThan(400_000);
    await reopened((set) => expect(set.get(item.id)?.generation).toBe(1_500));
  });

  test('after any changes and restarts is the one that plain maps give', async () => {
    const ids = ['a', 'b', 'c'].map((letter) => `${letter.repeat(8)}-0000-4000-8000-000000000000`);
    const change = fc.record({
      kind: fc.constantFrom('put', 'drop', 'snapshot', 'settle', 'reopen'),
      ids: fc.uniqueArray(fc.constantFrom(...ids)),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 25 }), async (changes) => {
        await rm(path, { force: true });
        let set = await DesiredSet.open(path, key);
        const model = new Map<string, WireAssignment>();
        let revision = 1;
        await set.snapshot(at(revision), []);
        for (const { kind, ids: chosen } of changes) {
          revision += 1;
          const items = chosen.map((id) => service({ id, generation: revision }));
          if (kind === 'put') {
            await set.delta(revision, items, []);
            for (const item of items) model.set(item.id, item);
          } else if (kind === 'drop') {
            await set.delta(revision, [], chosen);
            for (const id of chosen) model.delete(id);
          } else if (kind === 'snapshot') {
            await set.snapshot(at(revision), items);
            model.clear();
            for (const item of items) model.set(item.id, item);
          } else if (kind === 'settle') await set.settle(chosen);
          else {
            await set[Symbol.asyncDispose]();
            set = await DesiredSet.open(path, key);
          }
        }
        const got = [...set.all()].toSorted((x, y) => (x.id < y.id ? -1 : 1));
        await set[Symbol.asyncDispose]();
        expect(got).toEqual([...model.values()].toSorted((x, y) => (x.id < y.id ? -1 : 1)));
      }),
      { numRuns: 25 },
    );
  });
});

describe('a journal', () => {
  test('is not fooled by records that were moved, repeated or taken from another file', async () => {
    const record = (text: string): Buffer => Buffer.from(text.padEnd(20));
    const write = async (name: string, texts: string[]): Promise<Buffer> => {
      const { journal } = await Journal.open(join(dir, name), key);
      await journal.rewrite([]);
      for (const text of texts) await journal.append(record(text));
      await journal[Symbol.asyncDispose]();
      return readFile(join(dir, name));
    };
    const one = await write('one', ['a', 'b', 'c']);
    const two = await write('two', ['x', 'y', 'z']);
    const header = 20;
    const size = (one.length - header) / 3;
    const frame = (of: Buffer, index: number): Buffer =>
      of.subarray(header + index * size, header + (index + 1) * size);
    const forgeries = [
      [frame(one, 1), frame(one, 0), frame(one, 2)],
      [frame(one, 0), frame(one, 0), frame(one, 1)],
      [frame(one, 0), frame(two, 1), frame(one, 2)],
    ];
    for (const frames of forgeries) {
      await writeFile(join(dir, 'one'), Buffer.concat([one.subarray(0, header), ...frames]));
      const { journal, records } = await Journal.open(join(dir, 'one'), key);
      expect(records).toBeUndefined();
      await expect(journal.append(record('d'))).rejects.toThrow('before it was written as a whole');
      await journal[Symbol.asyncDispose]();
    }
  });
});

describe('the ledger', () => {
  const assignment = '7c000000-0000-4000-8000-000000000000';
  const container = (id: string, name: string): Container => ({
    id,
    name,
    labels: { [labels.assignment]: assignment },
    state: 'running',
    imageId: '',
  });
  const name = 'sp-web-7c000000';

  test('distinguishes what this agent made from what others did, also after a restart', async () => {
    {
      await using ledger = await Ledger.open(path, key);
      await ledger.complete(new Set());
      await ledger.intend(name, assignment);
      expect(ledger.origin(container('a', name))).toBe('intended');
      await ledger.made('a', name);
      await ledger.intend('sp-api-7c000000', assignment);
    }
    await using ledger = await Ledger.open(path, key);
    expect(ledger.origin(container('a', 'renamed'))).toBe('made');
    expect(ledger.origin(container('b', name))).toBe('named');
    expect(ledger.origin(container('c', 'sp-api-7c000000'))).toBe('intended');
    expect(ledger.origin(container('d', 'copy'))).toBe('foreign');
    expect(ledger.origin({ ...container('e', name), labels: {} })).toBe('foreign');
    await ledger.gone('a');
    expect(ledger.origin(container('a', 'renamed'))).toBe('foreign');
  });

  test('that was lost believes the names once, until all is written down again', async () => {
    await writeFile(path, 'damaged');
    {
      await using ledger = await Ledger.open(path, key);
      expect(ledger.origin(container('a', name))).toBe('intended');
      await ledger.intend('sp-other-7c000001', 'x');
    }
    {
      await using ledger = await Ledger.open(path, key);
      expect(ledger.origin(container('a', name))).toBe('intended');
      await ledger.made('a', name);
      await ledger.complete(new Set(['a']));
    }
    await using ledger = await Ledger.open(path, key);
    expect(ledger.origin(container('a', name))).toBe('made');
    expect(ledger.origin(container('b', name))).toBe('named');
  });

  test('of which the end is torn knows the intent that came before', async () => {
    {
      await using ledger = await Ledger.open(path, key);
      await ledger.complete(new Set());
      await ledger.intend(name, assignment);
    }
    await appendFile(path, Buffer.alloc(10, 1));
    await using ledger = await Ledger.open(path, key);
    expect(ledger.origin(container('a', name))).toBe('intended');
  });
});

describe('a configuration', () => {
  /** An instance whose variables are in the configuration of that id. */
  function referring(config: string, overrides: Partial<WireAssignment> = {}): WireAssignment {
    const { spec, ...item } = service(overrides);
    if (spec.type !== 'service') throw new Error('Must be a service');
    const { configuration: _, ...rest } = spec;
    return { ...item, spec: { ...rest, config } };
  }

  const red = { id: 'red', env: { PASSWORD: 'correct horse' } };
  const blue = { id: 'blue', env: { PASSWORD: 'battery staple' } };
  const folder = () => `${path}-configurations`;
  const envOf = (set: DesiredSet, item: WireAssignment) => {
    const spec = set.get(item.id)?.spec;
    return spec?.type === 'service' ? spec.configuration?.env : undefined;
  };
  const filesOf = async () => (await readdir(folder())).toSorted();

  test('is kept once for all instances, also over a restart, readable by its owner only and by nobody without the key', async () => {
    const [a, b] = [referring('red'), referring('red')];
    await reopened(async (set) => {
      await set.snapshot(at(1), [a, b], [], [red]);
      expect(envOf(set, a)).toBe(envOf(set, b));
    });
    await reopened((set) => expect([envOf(set, a), envOf(set, b)]).toEqual([red.env, red.env]));
    const [file = '', ...others] = await filesOf();
    expect(others).toEqual([]);
    expect((await stat(folder())).mode & 0o777).toBe(0o700);
    expect((await stat(join(folder(), file))).mode & 0o777).toBe(0o600);
    for (const one of [path, join(folder(), file)]) expect((await readFile(one)).includes('correct horse')).toBe(false);
    await using other = await DesiredSet.open(path, deriveKey(Buffer.from('other'), 'test'));
    expect(other.position()).toBeUndefined();
  });

  test('goes with the last instance that refers to it', async () => {
    const [a, b] = [referring('red'), referring('red')];
    await reopened(async (set) => {
      await set.snapshot(at(1), [a, b], [], [red, blue]);
      expect(await filesOf()).toHaveLength(1); // nothing refers to the other one
      await set.delta(2, [referring('blue')], [a.id], [blue]);
      expect(await filesOf()).toHaveLength(2);
      await set.delta(3, [], [b.id]);
      expect(await filesOf()).toHaveLength(1);
      await set.snapshot(at(4), []);
      expect(await filesOf()).toEqual([]);
    });
  });

  test('that comes at the end of a part of a change waits for its instances in the next one', async () => {
    const [a, b] = [referring('red'), referring('blue')];
    const sizeOf = (piece: Piece): number => JSON.stringify(piece).length;
    const wide = { id: 'blue', env: { TEXT: '' } };
    const others = sizeOf({ configuration: { id: 'red', env: { TEXT: '' } } }) + sizeOf({ item: a });
    const room = bounds.batchBytes - others - sizeOf({ configuration: wide });
    const big = { id: 'red', env: { TEXT: 'x'.repeat(room) } };
    await reopened(async (set) => {
      await set.snapshot(at(1), []);
      const pieces = [{ configuration: big }, { item: a }, { configuration: wide }, { item: b }];
      let parts = 0;
      for (const message of deltaMessages(1, 2, pieces)) {
        if (message.type !== 'delta') throw new Error('Must be a delta');
        parts += 1;
        await set.delta(message.to, message.put, message.drop, message.configurations);
      }
      expect(parts).toBe(2);
      expect([envOf(set, a), envOf(set, b)]).toEqual([big.env, wide.env]);
    });
  });

  test('that is lacking keeps a set from being taken, and what was known stays', async () => {
    const a = referring('red');
    await reopened(async (set) => {
      await set.snapshot(at(1), [a], [], [red]);
      const stranger = referring('blue');
      await expect(set.delta(2, [stranger], [a.id])).rejects.toThrow(stranger.id);
      await expect(set.snapshot(at(2), [stranger])).rejects.toThrow(stranger.id);
      expect(set.position()).toEqual(at(1));
      expect(envOf(set, a)).toEqual(red.env);
      expect(await filesOf()).toHaveLength(1);
    });
  });

  test('is not needed by an instance that is to stop', async () => {
    const item = referring('red');
    const { config: _, ...spec } = item.spec as typeof item.spec & { config: string };
    const stopped: WireAssignment = { ...item, generation: 2, run: 'stopped', spec };
    await reopened(async (set) => {
      await set.snapshot(at(1), [item], [], [red]);
      await set.delta(2, [stopped], []);
      expect(envOf(set, item)).toBeUndefined();
      expect(await filesOf()).toEqual([]);
    });
  });

  test('that was damaged leaves its instances as they are, and comes again', async () => {
    const [a, b] = [referring('red'), referring('blue')];
    await reopened((set) => set.snapshot(at(1), [a, b], [], [red, blue]));
    const [file = ''] = await filesOf();
    await writeFile(join(folder(), file), 'damage');
    await reopened(async (set) => {
      const [lost, intact] = envOf(set, a) === undefined ? [a, b] : [b, a];
      expect(envOf(set, lost)).toBeUndefined();
      expect(envOf(set, intact)).toBeDefined();
      // What the control plane cannot open now is kept as it is, with or without its configuration.
      await set.snapshot(at(2), [], [lost.id, intact.id]);
      expect(set.get(lost.id)).toEqual(lost);
      expect([...(await set.snapshot(at(3), [a, b], [], [red, blue]))]).toContain(lost.id);
      expect([envOf(set, a), envOf(set, b)]).toEqual([red.env, blue.env]);
    });
  });

  test('is written before the set that refers to it: a crash between leaves the set of before', async () => {
    const a = referring('red');
    await reopened((set) => set.snapshot(at(1), [a], [], [red]));
    const before = await readFile(path);
    await reopened((set) => set.delta(2, [referring('blue')], [], [blue]));
    await writeFile(path, before);
    await reopened(async (set) => {
      expect(set.position()).toEqual(at(1));
      expect(envOf(set, a)).toEqual(red.env);
      expect(await filesOf()).toHaveLength(1);
    });
  });
});
