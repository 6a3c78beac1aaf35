import { describe, expect, it } from 'vitest';
import {
  changesOfStep,
  countsText,
  inOrder,
  lookOfStep,
  whyForced,
  whyNotPlanned,
} from '../../../web/pages/plan/plan-words.ts';
import type { Plan, PlannedStep } from '../../../web/pages/plan/plan-words.ts';
import { changeable } from '../../../web/pages/template-instance/change-fields.ts';
import { driftChanges } from '../../../web/pages/template-instance/drift-changes.ts';

const step = (change: Partial<PlannedStep>): PlannedStep => ({
  action: 'update',
  kind: 'application',
  key: 'applications.web',
  name: 'web',
  renamed_from: null,
  id: null,
  wave: 0,
  fields: [],
  interrupts: null,
  loses_data: null,
  waits_for: null,
  ...change,
});
const field = { field: 'replicas', before: 1, after: 2, secret: false, by_hand: false, declared_by: null };

describe('a plan', () => {
  it('counts what is done, in the order of what one looks at', () => {
    const steps = [step({ action: 'unchanged' }), step({}), step({ action: 'create' }), step({})];
    expect(countsText(steps)).toBe('1 new, 2 changed, 1 unchanged');
    expect(countsText([])).toBe('');
  });

  it('shows a step by which something only gets another name as a renaming', () => {
    expect(lookOfStep(step({ renamed_from: 'web' })).word).toBe('renamed');
    expect(lookOfStep(step({})).word).toBe('changed');
    expect(lookOfStep(step({ action: 'replace', renamed_from: 'web' })).word).toBe('replaced');
  });

  it('shows values as texts, and of secrets only that they change', () => {
    expect(changesOfStep([field, { ...field, field: 'host_name', before: null, after: 'web' }])).toEqual([
      { path: 'replicas', before: '1', after: '2', isEqual: false },
      { path: 'host_name', after: 'web', isEqual: false },
    ]);
    const secret = { ...field, field: 'env.TOKEN', before: null, after: null, secret: true };
    expect(changesOfStep([secret])).toMatchObject([{ before: 'a secret', after: 'another secret' }]);
  });

  it('asks for a decision about data that is lost, and about what others have set', () => {
    expect(whyForced(step({ fields: [field] }))).toBeUndefined();
    expect(whyForced(step({ loses_data: 'All of db' }))).toBe('All of db');
    expect(whyForced(step({ fields: [field, { ...field, field: 'env', by_hand: true }] }))).toContain('has set env');
  });

  it('is done once each step that needs it was decided, and only if it changes anything', () => {
    const plan: Plan = { dry_run: true, changes: true, steps: [], needs_force: ['databases.db', 'volumes.files'] };
    expect(whyNotPlanned(plan, new Set(['volumes.files']))).toBe('Decide first about databases.db');
    expect(whyNotPlanned(plan, new Set(plan.needs_force))).toBeUndefined();
    expect(whyNotPlanned({ ...plan, changes: false }, new Set())).toBe('Nothing would change');
  });

  it('stands in the order of its waves, without what stays', () => {
    const steps = [step({ key: 'b', wave: 2 }), step({ key: 'c', action: 'unchanged' }), step({ key: 'a', wave: 1 })];
    const { changing, unchanged } = inOrder(steps);
    expect([changing, unchanged].map((of) => of.map(({ key }) => key))).toEqual([['a', 'b'], ['c']]);
  });
});

describe('a change of an instance', () => {
  const declared = (name: string, change: object = {}) => ({
    name,
    type: 'string' as const,
    display_name: null,
    description: null,
    required: true,
    secret: false,
    default: 'usual',
    pattern: null,
    options: null,
    generated: false,
    ...change,
  });
  const own = [
    { name: 'TITLE', type: 'string' as const, generated: false },
    { name: 'OPEN', type: 'boolean' as const, generated: false },
    { name: 'SECRET', type: 'secret' as const, generated: true },
  ];

  it('asks for values of new variables, and leaves the others as they are', () => {
    const fields = changeable(own, [declared('TITLE'), declared('OPEN', { type: 'boolean' }), declared('NEW')]);
    expect(fields.map(({ variable, isKept }) => [variable.name, isKept, variable.required, variable.default])).toEqual([
      ['TITLE', true, false, null],
      ['OPEN', true, false, null],
      ['NEW', false, true, 'usual'],
    ]);
    expect(fields[1]?.variable.options).toEqual(['true', 'false']);
  });

  it('does not offer what was generated, also where it keeps its text', () => {
    expect(changeable(own, undefined).map(({ variable }) => variable.name)).toEqual(['TITLE', 'OPEN']);
    expect(changeable(own, [declared('SECRET', { type: 'secret' })])).toEqual([]);
  });

  it('by hand is shown by field: what is not told is not set, or a secret on both sides', () => {
    const of = { kind: 'application' as const, key: 'web', id: '1' };
    expect(
      driftChanges([
        { ...of, field: 'replicas', declared: 1, live: 2 },
        { ...of, field: 'memory_limit', declared: '1g', live: null },
        { ...of, field: 'env.TOKEN', declared: null, live: null },
      ]),
    ).toEqual([
      { path: 'replicas', before: '1', after: '2', isEqual: false },
      { path: 'memory_limit', before: '1g', isEqual: false },
      { path: 'env.TOKEN', before: 'a secret', after: 'another secret, or none', isEqual: false },
    ]);
  });
});
