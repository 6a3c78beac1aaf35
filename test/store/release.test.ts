import { expect, test } from 'vitest';
import { z } from 'zod';
import { definitionOf } from '../../store/definition.ts';
import { firstRelease } from '../../store/first-release.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { DesiredOf, KindName } from '../../store/kinds/kinds.ts';
import { gapOf, inGap, thisRelease } from '../../store/release.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { revision } from '../../store/revision.ts';
import { fieldsOf, uses } from '../../store/schema-fields.ts';
import { desiredState } from '../harness/states.ts';

const kindNames = Object.keys(kinds) as KindName[]; // the keys of `kinds` are the names

function anObject<K extends KindName>(kind: K, desired: Partial<DesiredOf<K>> = {}): ReadonlyResource {
  const at = new Date(0).toISOString();
  const meta = { tenant: 't', kind, id: 'x', generation: 1, createdAt: at, updatedAt: at };
  return {
    meta: { ...meta, desiredRevision: revision(1), finalizers: [], owners: [], labels: {} },
    desired: { ...desiredState(kind), ...desired },
  };
}

test('of the first release, a leader lacks volumes, settings, runs, webhooks, previews, databases, backups, their schedules and destinations, restores and archives, template instances, functions, syncs, capabilities, mounts and domains of applications, proxies, rules for ports, host keys, pinned commits, healings, validations, provisionings, generated Dockerfiles and comparisons that deploy', () => {
  const gap = gapOf(firstRelease);
  expect([...(gap?.kinds ?? [])]).toEqual([
    'settings',
    'volume',
    'run',
    'git_webhook',
    'webhook_delivery',
    'preview',
    'database',
    'backup_destination',
    'backup',
    'backup_schedule',
    'restore',
    'wal_archive',
    'template_instance',
    'function',
    'function_version',
    'sync',
  ]);
  const fields = [...(gap?.fields ?? [])].map(([kind, all]) => [
    kind,
    all.map(({ name }) => name).filter((name) => !name.includes('.')),
  ]);
  expect(fields).toEqual([
    ['environment', []], // only parts of what it is a clone of
    ['server', ['host_key', 'direct_ports', 'ingress', 'provision_attempt', 'agent_update']],
    [
      'application',
      [
        'template_instance_id',
        'unpublished',
        'unpublished=true',
        'capabilities',
        'max_surge',
        'min_healthy_seconds',
        'healthy_deadline',
        'drain_seconds',
        'stop_grace_seconds',
        'mounts',
        'domains',
      ],
    ],
    ['deployment', ['commit', 'services', 'notes']],
    [
      'operation',
      [
        'type=heal',
        'type=validate',
        'type=provision',
        'type=dockerfile',
        'type=compose',
        'deployment_id',
        'checks',
        'asked',
        'deploy',
        'trigger',
        'trigger=webhook',
        'delivery_id',
      ],
    ],
  ]);
});

test('this release lacks nothing of itself, and a later one nothing of this', () => {
  expect(gapOf(thisRelease)).toBeUndefined();
  const later = { reads: { ...thisRelease.reads, machine: 1 }, fields: { ...thisRelease.fields, machine: ['name'] } };
  expect(gapOf(later)).toBeUndefined();
});

test('each kind that a leader must know is in the gap of a release that does not announce it', () => {
  for (const kind of kindNames) {
    const { [kind]: _, ...reads } = thisRelease.reads;
    const gap = gapOf({ ...thisRelease, reads });
    if (definitionOf(kind).ignorable === true) expect(gap).toBeUndefined();
    else expect(gap && inGap(gap, anObject(kind))).toBe(`the kind ${kind.replaceAll('_', ' ')}`);
  }
});

test('each field that a leader must know is in the gap of a release that does not announce it', () => {
  const free = (kind: KindName) => definitionOf(kind).ignorable ?? [];
  const inGaps = Object.entries(thisRelease.fields).flatMap(([kind, names]) =>
    names.map((name) => {
      const fields = { ...thisRelease.fields, [kind]: names.filter((one) => one !== name) };
      const found = [...(gapOf({ ...thisRelease, fields })?.fields.values() ?? [])].flat().map((it) => it.name);
      return { kind, name, found };
    }),
  );
  expect(inGaps.length).toBeGreaterThan(100);
  for (const { kind, name, found } of inGaps) {
    const ignorable = free(kind as KindName); // the keys of `fields` are names of kinds
    expect(found, `${kind} ${name}`).toEqual(ignorable !== true && ignorable.includes(name) ? [] : [name]);
  }
});

test('an ignorable field is one that the kind has', () => {
  for (const kind of kindNames) {
    const { ignorable } = definitionOf(kind);
    const names = fieldsOf(kinds[kind].desired).map(({ name }) => name);
    if (ignorable !== true && ignorable !== undefined) expect(names).toEqual(expect.arrayContaining([...ignorable]));
  }
});

test('an object is in the gap by a field that it uses, not by one with its default', () => {
  const gap = gapOf(firstRelease);
  if (gap === undefined) throw new Error('The first release knows less than this one');
  expect(inGap(gap, anObject('application'))).toBeUndefined();
  expect(inGap(gap, anObject('application', { last_replicas: 2 }))).toBeUndefined();
  const mounts = [{ volume_id: 'v', path: '/data', read_only: false }];
  expect(inGap(gap, anObject('application', { mounts }))).toBe('mounts of the kind application');
  const file = { $sealed: 'x', for: 'application/x/source.compose_file' };
  const source = { type: 'compose' as const, compose_file: file };
  expect(inGap(gap, anObject('application', { source }))).toBe('source.type compose of the kind application');
  expect(inGap(gap, anObject('server'))).toBeUndefined();
});

test('fields are found in every part of a schema, and values of enumerations', () => {
  const schema = z.object({
    plain: z.string(),
    set: z.enum(['a', 'b']).default('a'),
    maybe: z.object({ inner: z.int().optional() }).nullish(),
    many: z.array(z.object({ at: z.string().transform(Number).pipe(z.number()) })).default([]),
    named: z.record(z.string(), z.union([z.object({ type: z.literal('x'), of: z.string() }), z.string()])),
  });
  const fields = fieldsOf(schema);
  expect(fields.map(({ name }) => name)).toEqual([
    'plain',
    'set',
    'set=a',
    'set=b',
    'maybe',
    'maybe.inner',
    'many',
    'many.*.at',
    'named',
    'named.*.type',
    'named.*.type=x',
    'named.*.of',
  ]);
  const usedBy = (state: object): string[] => fields.filter((it) => uses(state, it)).map(({ name }) => name);
  expect(usedBy({ set: 'a', many: [], maybe: undefined })).toEqual(['set=a']);
  expect(usedBy({ set: 'b', many: [{ at: 1 }] })).toEqual(['set', 'set=b', 'many', 'many.*.at']);
  expect(usedBy({ maybe: { inner: 0 } })).toEqual(['maybe', 'maybe.inner']);
  expect(usedBy({ named: { one: 'text', two: { type: 'x', of: 'y' } } })).toEqual([
    'named',
    'named.*.type',
    'named.*.type=x',
    'named.*.of',
  ]);
});
