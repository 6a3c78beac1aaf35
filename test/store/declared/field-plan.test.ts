import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { effectsOfChange } from '../../../store/declared/effects.ts';
import { declarationOf, driftOf, fieldPlan } from '../../../store/declared/field-plan.ts';
import { writeLeaves } from '../../../store/declared/merge.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { plainCopy } from '../../../store/plain-copy.ts';
import { desiredState } from '../../harness/states.ts';

type Application = DesiredOf<'application'>;

/** A secret, by its text; each time with another ciphertext. */
let sealed = 0;
const secret = (text: string) => ({ $sealed: `${text} ${++sealed}`, for: 'application/id/config.env.NAME' });
const isSame = (one: { $sealed: string }, other: { $sealed: string }): boolean =>
  one.$sealed.split(' ')[0] === other.$sealed.split(' ')[0];

function application(config: Partial<Application['config']> = {}, rest: Partial<Application> = {}): Application {
  const fields = { name: 'web', source: { type: 'image' as const, image_url: 'web:1' }, ...rest };
  const base = { project_id: '1', environment_id: '2', server_id: '3', internal_id: 'web-1' };
  const made = desiredState('application', fields);
  return { ...made, ...base, config: { ...made.config, ...config } };
}

const fields = ['name', 'source_type', 'image_url', 'env', 'exposed_port'];

function plan(former: Application, wanted: Application, live: Application, declared = fields, before = fields) {
  const found = fieldPlan(
    'application',
    { former: declarationOf(former, before), wanted: declarationOf(wanted, declared), live },
    isSame,
  );
  return found.map(({ field, declaration, isWrite, isForeign }) => [field, declaration, isWrite, isForeign]);
}

it('finds what the declaration changes, and nothing where secrets hold the same text', () => {
  const former = application({ env: { A: secret('one') }, exposed_port: 80 });
  const wanted = application({ env: { A: secret('one'), B: secret('two') }, exposed_port: 81 });
  expect(plan(former, wanted, plainCopy<Application>(former))).toEqual([
    ['exposed_port', 'declared', true, false],
    ['env.B', 'declared', true, false],
  ]);
  expect(plan(wanted, wanted, wanted)).toEqual([]);
});

it('leaves alone what nobody declares', () => {
  const it = application({ env: { A: secret('one') } });
  const live = application({ env: { A: secret('one'), OWN: secret('x') }, memory_limit: '1g' }, { replicas: 3 });
  expect(plan(it, it, live)).toEqual([]);
});

it('tells what others have added to a field that is written as a whole, and plans a limit as one', () => {
  const it = application({ ulimits: { nofile: { soft: 10, hard: 20 } } });
  const live = application({ ulimits: { nofile: { soft: 10, hard: 30 }, core: { soft: 1, hard: 1 } } });
  expect(plan(it, it, live, ['ulimits'], ['ulimits'])).toEqual([
    ['ulimits.nofile', 'same', true, true],
    ['ulimits.core', 'same', true, true],
  ]);
  const draft = plainCopy<Application>(live);
  writeLeaves<'application'>(draft, it, ['config/ulimits/nofile', 'config/ulimits/core']);
  expect(draft.config.ulimits).toEqual({ nofile: { soft: 10, hard: 20 } });
});

it('returns a field that is not declared any more to its default', () => {
  const former = application({ exposed_port: 80, env: { A: secret('one') } });
  const wanted = application();
  expect(plan(former, wanted, former, ['name', 'source_type', 'image_url'])).toEqual([
    ['env.A', 'declared', true, false],
    ['exposed_port', 'declared', true, false],
  ]);
});

it('tells what somebody else changed', () => {
  const it = application({ exposed_port: 80, env: { A: secret('one'), B: secret('b') } });
  const live = application({ exposed_port: 90, env: { A: secret('two') } });
  expect(new Set(plan(it, it, live))).toEqual(
    new Set([
      ['env.A', 'same', true, true],
      ['env.B', 'same', true, true],
      ['exposed_port', 'same', true, true],
    ]),
  );
  const [first] = driftOf('application', declarationOf(it, ['exposed_port']), live, isSame);
  expect(first).toMatchObject({ field: 'exposed_port', before: 90, after: 80, isSecret: false });
  const [hidden] = driftOf('application', declarationOf(it, ['env']), live, isSame);
  expect(hidden).toMatchObject({ isSecret: true, before: null, after: null });
  expect(plan(it, application({ exposed_port: 91 }), live, ['exposed_port'], ['exposed_port'])).toEqual([
    ['exposed_port', 'declared', true, true],
  ]);
  expect(plan(it, application({ exposed_port: 90 }), live, ['exposed_port'], ['exposed_port'])).toEqual([
    ['exposed_port', 'declared', false, true],
  ]);
});

it('takes all that is wanted for declared anew where nothing was declared before', () => {
  const it = application({ exposed_port: 80 });
  const found = fieldPlan(
    'application',
    { former: undefined, wanted: declarationOf(it, fields), live: application() },
    isSame,
  );
  expect(found.filter(({ isWrite }) => isWrite).map(({ field }) => field)).toEqual(['exposed_port']);
});

it('does not take the data of a restored volume, nor the hash of a password, for a field', () => {
  const mount = { volume_id: randomUUID(), path: '/data', read_only: false };
  const it = application({}, { mounts: [mount] });
  expect(
    plan(it, it, application({}, { mounts: [{ ...mount, data_id: randomUUID() }] }), ['volumes'], ['volumes']),
  ).toEqual([]);
  const domain = {
    host: 'a.test',
    path: '/',
    tls: 'on' as const,
    basic_auth: [{ username: 'u', password_hash: 'hash' }],
    headers: { set: {}, remove: [] },
  };
  const [found] = driftOf(
    'application',
    declarationOf(application(), ['domains']),
    application({}, { domains: [domain] }),
    isSame,
  );
  expect(found).toMatchObject({ before: '["a.test/"]', after: '[]' });
});

it('writes leaves, and leaves the rest of an object alone', () => {
  const live = application({ env: { A: secret('one'), OWN: secret('x') }, memory_limit: '1g', references: ['own'] });
  const wanted = application({ env: { B: secret('two') }, exposed_port: 80, references: ['new'] });
  const draft = plainCopy<Application>(live);
  writeLeaves<'application'>(draft, wanted, ['config/env/A', 'config/env/B', 'config/exposed_port']);
  expect(Object.keys(draft.config.env).toSorted()).toEqual(['B', 'OWN']);
  expect(draft.config).toMatchObject({ memory_limit: '1g', exposed_port: 80, references: ['new', 'own'] });
  writeLeaves<'application'>(draft, application(), ['config/exposed_port']);
  expect(draft.config.exposed_port).toBeUndefined();
});

it('writes a source of another type as a whole', () => {
  const draft = application();
  const git = {
    type: 'git' as const,
    repository_url: 'https://git.test/a',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  };
  const source = { ...git, build_context: '.', build_args: {} };
  writeLeaves<'application'>(draft, application({}, { source }), ['source/type', 'source/branch', 'source/image_url']);
  expect(draft.source).toEqual(source);
});

it('finds names with a dot or a slash by their leaves', () => {
  const one = desiredState('database', { parameters: { 'a.b': '1', 'c/d': '2' } });
  const other = desiredState('database', { ...one, parameters: { 'a.b': '3' } });
  const paths = fieldPlan(
    'database',
    { former: declarationOf(one), wanted: declarationOf(other), live: one },
    isSame,
  ).map(({ path }) => path);
  const draft = plainCopy<DesiredOf<'database'>>(one);
  writeLeaves<'database'>(draft, other, paths);
  expect(draft.parameters).toEqual({ 'a.b': '3' });
});

it('says what a change costs', () => {
  const alone = application({}, { mounts: [{ volume_id: randomUUID(), path: '/data', read_only: false }] });
  expect(effectsOfChange('application', ['config/env/A'], application()).interrupts).toBeNull();
  expect(effectsOfChange('application', ['config/env/A'], alone).interrupts).not.toBeNull();
  expect(effectsOfChange('application', ['replicas'], alone).interrupts).toBeNull();
  const database = desiredState('database');
  expect(effectsOfChange('database', ['display_name'], database)).toEqual({ interrupts: null, loses_data: null });
  expect(effectsOfChange('database', ['memory_limit'], database).loses_data).toBeNull();
  expect(effectsOfChange('database', ['memory_limit'], database).interrupts).not.toBeNull();
  expect(effectsOfChange('database', ['version'], database).loses_data).not.toBeNull();
});
