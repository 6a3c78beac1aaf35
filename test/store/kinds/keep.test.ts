import { expect, test } from 'vitest';
import { z } from 'zod';
import { definitionOf } from '../../../store/definition.ts';
import { defineKind, type KindDefinition } from '../../../store/kinds/define.ts';
import { isKindName, kinds, type KindName } from '../../../store/kinds/kinds.ts';

/** Fields by which objects are seen to come to an end, so that they are a history that grows. */
const ends = ['finished_at', 'ended_at', 'expires_at', 'queued_at', 'requested_at'];

const fieldsOf = (schema: z.ZodType): string[] => (schema instanceof z.ZodObject ? Object.keys(schema.shape) : []);

/** What is wrong with how long a kind says that its objects stay. */
function faultsOf<D extends z.ZodType, O extends z.ZodType>(definition: KindDefinition<string, D, O>): string[] {
  const { kind, keep, desired, observed, indexes } = definition;
  const faults: string[] = [];
  const end = [...fieldsOf(desired), ...fieldsOf(observed)].find((field) => ends.includes(field));
  if ('untilDeleted' in keep && end !== undefined)
    faults.push(`${kind} has ${end}, so its objects are a history: let \`keep\` bound it by \`newest\` or \`until\``);
  if ('untilDeleted' in keep && !keep.untilDeleted.includes(' '))
    faults.push(`${kind}: \`untilDeleted\` must say in words what deletes its objects`);
  if ('newest' in keep && keep.newest !== undefined) {
    const { under, count } = keep.newest;
    if (!Object.hasOwn(indexes ?? {}, under))
      faults.push(`${kind} has no index ${under}, under which it is to be kept`);
    if (!isKindName(under)) faults.push(`${kind} is kept under what is no kind: ${under}`);
    if (count < 1) faults.push(`${kind} keeps none of its objects`);
  }
  for (const owner of keep.outlivesDeletionOf ?? [])
    if (!isKindName(owner)) faults.push(`${kind} outlives the deletion of what is no kind: ${owner}`);
  return [...faults, ...faultsOfUse(definition)];
}

/** What is wrong with what a kind says of that which uses its objects. */
function faultsOfUse<D extends z.ZodType, O extends z.ZodType>({ kind, keep }: KindDefinition<string, D, O>): string[] {
  const { usedBy } = keep;
  if (usedBy === undefined) return [];
  const unknown = usedBy
    .filter((user) => !isKindName(user) || !Object.hasOwn(definitionOf(user).indexes ?? {}, kind))
    .map((user) => `${kind} is used by what has no index ${kind}: ${user}`);
  return 'until' in keep ? unknown : [...unknown, `${kind} has users and no end that they put off`];
}

test.each(Object.keys(kinds) as KindName[])('%s says how long its objects stay', (kind) => {
  expect(faultsOf(definitionOf(kind))).toEqual([]);
});

test('a history that says nothing of its end is found', () => {
  const backup = defineKind({
    kind: 'backup',
    version: 1,
    desired: z.object({ ledger_id: z.string() }),
    observed: z.object({ finished_at: z.string().optional() }),
    indexes: { ledger: (d) => d.ledger_id },
    keep: { untilDeleted: 'A user deletes it' },
  });
  expect(faultsOf(backup)).toEqual([
    'backup has finished_at, so its objects are a history: let `keep` bound it by `newest` or `until`',
  ]);
  expect(faultsOf({ ...backup, keep: { newest: { count: 20, under: 'ledger' } } })).toEqual([
    'backup is kept under what is no kind: ledger',
  ]);
  expect(faultsOf({ ...backup, keep: { newest: { count: 0, under: 'server' } } })).toEqual([
    'backup has no index server, under which it is to be kept',
    'backup keeps none of its objects',
  ]);
});

test('users by which nothing is found are found', () => {
  const plan = defineKind({
    kind: 'backup',
    version: 1,
    desired: z.object({}),
    observed: z.object({}),
    keep: { until: () => undefined, usedBy: ['restore', 'environment'] },
  });
  expect(faultsOf(plan)).toEqual(['backup is used by what has no index backup: environment']);
});
