import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineKind } from '../../store/kinds/define.ts';
import { decodeDesired, decodeObserved, encodeDesired, encodeObserved, succeed } from '../../store/record.ts';

const gadgetV1 = defineKind({
  kind: 'gadget',
  keep: { untilDeleted: 'A test deletes it' },
  version: 1,
  desired: z.object({ title: z.string(), size: z.int() }),
  observed: z.object({ phase: z.string() }),
});

const gadgetV3 = defineKind({
  kind: 'gadget',
  keep: { untilDeleted: 'A test deletes it' },
  version: 3,
  desired: z.object({
    name: z.string(),
    box: z.object({ width: z.int(), height: z.int() }),
    color: z.string().default('grey'),
  }),
  observed: z.object({ phase: z.string(), since: z.string().optional() }),
  upgrade: {
    1: ({ title, ...rest }) => ({ ...rest, name: title }),
    2: ({ size, ...rest }) => ({ ...rest, box: { width: size, height: size } }),
  },
});

const envelope = {
  generation: 4,
  createdAt: '2030-01-01T00:00:00.000Z',
  updatedAt: '2030-01-02T00:00:00.000Z',
  finalizers: ['gadget'],
  owners: [{ kind: 'project', id: 'p1', blocks: true }],
  labels: { tier: 'web' },
};

describe('a desired record', () => {
  it('of version 1 is read in the form of version 3, and stored in it by the next write', () => {
    const fixture = JSON.stringify({ v: 1, ...envelope, desired: { title: 'a', size: 2 } });
    const record = decodeDesired(gadgetV3, fixture);
    expect(record).toEqual({ meta: envelope, desired: { name: 'a', box: { width: 2, height: 2 }, color: 'grey' } });
    expect(JSON.parse(encodeDesired(gadgetV3, record))).toEqual({ v: 3, ...envelope, desired: record.desired });
  });

  it('of version 2 takes only the upgrades that it needs', () => {
    const record = decodeDesired(gadgetV3, JSON.stringify({ v: 2, ...envelope, desired: { name: 'a', size: 2 } }));
    expect(record.desired.box).toEqual({ width: 2, height: 2 });
  });

  it('of a version without an upgrade is refused with the version', () => {
    const fixture = JSON.stringify({ v: 0, ...envelope, desired: {} });
    expect(() => decodeDesired(gadgetV3, fixture)).toThrow('Cannot read a gadget of version 0 as it has no upgrade');
  });

  it('of a newer version keeps its version and what is not understood when it is rewritten', () => {
    const newer = {
      v: 9,
      ...envelope,
      pausedAt: '2031-01-01T00:00:00.000Z',
      desired: { name: 'a', box: { width: 1, height: 1, depth: 7 }, color: 'red', weight: { kg: 3 } },
    };
    const record = decodeDesired(gadgetV3, JSON.stringify(newer));
    expect(record.desired).toEqual({ name: 'a', box: { width: 1, height: 1 }, color: 'red' });
    const changed = { ...record.desired, color: 'blue' };
    succeed(record.desired, changed);
    expect(JSON.parse(encodeDesired(gadgetV3, { meta: record.meta, desired: changed }))).toEqual({
      ...newer,
      desired: { ...newer.desired, color: 'blue' },
    });
  });

  it('does not bring back a field that a change removed together with what was unknown in it', () => {
    const kind = defineKind({
      kind: 'gadget',
      keep: { untilDeleted: 'A test deletes it' },
      version: 1,
      desired: z.object({ box: z.object({ width: z.int() }).optional(), env: z.record(z.string(), z.string()) }),
      observed: z.object({}),
    });
    const stored = { v: 1, ...envelope, desired: { box: { width: 1, depth: 2 }, env: { A: '1', B: '2' } } };
    const record = decodeDesired(kind, JSON.stringify(stored));
    const changed = { env: { B: '2' } };
    succeed(record.desired, changed);
    expect(JSON.parse(encodeDesired(kind, { meta: record.meta, desired: changed }))).toMatchObject({
      desired: { env: { B: '2' } },
    });
    expect(encodeDesired(kind, { meta: record.meta, desired: changed })).not.toContain('depth');
  });

  it('keeps that deletion was requested', () => {
    const stored = {
      v: 1,
      ...envelope,
      deletionRequestedAt: '2030-02-01T00:00:00.000Z',
      desired: { title: 'a', size: 1 },
    };
    const record = decodeDesired(gadgetV1, JSON.stringify(stored));
    expect(record.meta.deletionRequestedAt).toBe('2030-02-01T00:00:00.000Z');
    expect(JSON.parse(encodeDesired(gadgetV1, record))).toEqual(stored);
  });

  it.each([
    ['no JSON', 'nonsense'],
    ['no record', '{"v":1}'],
    ['no state of the kind', JSON.stringify({ v: 1, ...envelope, desired: { title: 1 } })],
  ])('is refused if it is %s', (_, text) => {
    expect(() => decodeDesired(gadgetV1, text)).toThrow();
  });
});

describe('an observed record', () => {
  const condition = {
    type: 'Ready',
    status: 'true',
    reason: 'Ready',
    message: '',
    observedGeneration: 4,
    changedAt: '2030-01-01T00:00:00.000Z',
  } as const;

  it('survives being written and read', () => {
    const observed = { phase: 'active', observedGeneration: 4, conditions: [condition] };
    expect(decodeObserved(gadgetV1, encodeObserved(gadgetV1, observed))).toEqual(observed);
  });

  it('keeps what is not understood when its writer replaces the rest', () => {
    const newer = {
      v: 4,
      observedGeneration: 4,
      conditions: [condition],
      extra: 1,
      observed: { phase: 'active', load: 2 },
    };
    const before = decodeObserved(gadgetV3, JSON.stringify(newer));
    const after = { phase: 'failed', observedGeneration: 5, conditions: [] };
    succeed(before, after);
    expect(JSON.parse(encodeObserved(gadgetV3, after))).toEqual({
      v: 4,
      observedGeneration: 5,
      conditions: [],
      extra: 1,
      observed: { phase: 'failed', load: 2 },
    });
  });
});
