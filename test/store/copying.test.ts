import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { copiedKinds, copyDesired, copyIdOf, copyRuleOf } from '../../store/copying.ts';
import type { CopyRule } from '../../store/copying.ts';
import { definitionOf } from '../../store/definition.ts';
import { defineKind } from '../../store/kinds/define.ts';
import { Id, Sealed } from '../../store/kinds/fields.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { openKeyring } from '../../store/seal.ts';
import type { Sealer, Transplanter, Unsealer } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { randomId } from '../harness/random-id.ts';
import { desiredState } from '../harness/states.ts';

const allKinds = Object.keys(kinds) as KindName[];
const tenant = 'acme';

let folder: string;
let store: Store & AsyncDisposable;
let ring: Sealer & Unsealer & Transplanter;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-copying-'));
  store = await openSqlite({ path: ':memory:' });
  ring = await openKeyring({ path: join(folder, 'keys.json'), store });
});
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Fields of copied kinds whose ids are the same in a copy, and why. */
const staying: Readonly<Record<string, string>> = {
  template_instance_id: 'The copy has none: an instance is not copied',
  data_id: 'A copied volume is new: it has no data of another one, and `reset` removes the id',
  'mounts.*.data_id': 'The same of what mounts it',
  project_id: 'a clone is in the project of its source',
  registry_id: 'a registry is of no environment',
  'source.git_credential_id': 'a git credential is of no environment',
  'source.repository.git_credential_id': 'a git credential is of no environment',
  'archive.id': 'the copy has no archive: `clone.reset` deletes it',
  'archive.destination_id': 'as above',
  deployment_id: 'the copy has no deployment: `clone.reset` deletes it',
  version_id: 'the copy has no version: `clone.reset` deletes it',
};

/** Where the schema has ids, as a rule of cloning writes it: an element of a list or a map is `*`. */
function idPathsOf(schema: z.core.JSONSchema._JSONSchema | undefined): string[] {
  if (typeof schema !== 'object') return [];
  if (schema.format === 'uuid') return [''];
  const { properties = {}, additionalProperties, items, prefixItems = [], anyOf = [], oneOf = [] } = schema;
  const parts: (readonly [string, z.core.JSONSchema._JSONSchema])[] = [
    ...Object.entries(properties),
    ...[additionalProperties, items].flat().flatMap((it) => (it === undefined ? [] : [['*', it] as const])),
    ...prefixItems.map((it, nth) => [String(nth), it] as const),
  ];
  const inParts = parts.flatMap(([name, part]) =>
    idPathsOf(part).map((path) => (path === '' ? name : `${name}.${path}`)),
  );
  return [...new Set([...inParts, ...[...anyOf, ...oneOf].flatMap(idPathsOf)])];
}

/** Ids that a copy would have in common with its source, without a reason in `staying`. */
function forgottenIds({ desired, clone }: { desired: z.ZodType; clone?: unknown }): string[] {
  const { references } = clone as CopyRule<never>;
  return idPathsOf(z.toJSONSchema(desired, { unrepresentable: 'any' })).filter(
    (path) => !references.includes(path) && !Object.hasOwn(staying, path),
  );
}

/** A kind whose objects refer to each other and hold secrets at several depths. */
const machine = defineKind({
  kind: 'machine',
  keep: { untilDeleted: 'A test deletes it' },
  version: 1,
  desired: z.object({
    environment_id: z.string(),
    needs: z.array(z.object({ machine_id: z.string(), as: z.string() })),
    links: z.record(z.string(), z.string()),
    maker_id: z.string(),
    secrets: z.record(z.string(), z.object({ value: Sealed })),
    count: z.int(),
  }),
  observed: z.object({}),
  clone: {
    references: ['environment_id', 'needs.*.machine_id', 'links.*', 'missing.*.id'],
    reset: (draft) => void (draft.count = 0),
  },
});
const rule = machine.clone as CopyRule<z.output<typeof machine.desired>>;

describe('a copy', () => {
  const [environment, other, maker, self] = [randomId(), randomId(), randomId(), randomId()];
  const clone = randomId();
  const copyId = copyIdOf(clone, self);
  const ids = new Map([
    [environment, clone],
    [other, copyIdOf(clone, other)],
    [self, copyId],
  ]);
  const seal = (id: string, path: string, plain: string) => ring.seal(plain, { tenant, kind: 'machine', id, path });
  const desired = () => ({
    environment_id: environment,
    needs: [
      { machine_id: other, as: other },
      { machine_id: maker, as: 'x' },
    ],
    links: { one: self, two: 'no id' },
    maker_id: maker,
    secrets: {
      own: { value: seal(self, 'secrets.own.value', 'ünïcode\n') },
      sibling: { value: seal(other, 'secrets.a.value', 'of a sibling') },
      stranger: { value: seal(maker, 'secrets.b.value', 'of a stranger') },
    },
    count: 7,
  });
  const source = (state = desired()) => ({
    tenant,
    kind: 'machine',
    id: self,
    desired: state,
    copyId,
    idOf: (id: string) => ids.get(id),
  });

  it('refers to copies where its source refers to what is copied, and only in the fields that are references', () => {
    const copy = copyDesired(rule, source(), ring);
    expect(copy).toMatchObject({
      environment_id: clone,
      needs: [
        { machine_id: copyIdOf(clone, other), as: other },
        { machine_id: maker, as: 'x' },
      ],
      links: { one: copyId, two: 'no id' },
      maker_id: maker,
      count: 0,
    });
  });

  it('holds the secrets of its source byte by byte, sealed for itself alone', () => {
    const before = desired();
    const { own, sibling, stranger } = copyDesired(rule, source(before), ring).secrets;
    const open = (value: z.output<typeof Sealed> | undefined, id: string, path: string) =>
      ring.unseal(value!, { tenant, kind: 'machine', id, path });
    expect(open(own?.value, copyId, 'secrets.own.value')).toBe('ünïcode\n');
    expect(open(sibling?.value, copyIdOf(clone, other), 'secrets.a.value')).toBe('of a sibling');
    expect(stranger).toEqual(before.secrets.stranger);
    expect(() => open(own?.value, self, 'secrets.own.value')).toThrow('another place');
    const forged = { ...before.secrets.own.value, for: `machine/${copyId}/secrets.own.value` };
    expect(() => open(forged, copyId, 'secrets.own.value')).toThrow('changed or moved');
  });

  it('is not made of a secret that does not open', () => {
    const state = desired();
    state.secrets.own.value = { ...state.secrets.own.value, for: `machine/${self}/secrets.other.value` };
    expect(() => copyDesired(rule, source(state), ring)).toThrow('changed or moved');
  });

  it('leaves its source as it is', () => {
    const state = desired();
    const before = structuredClone(state);
    copyDesired(rule, source(state), ring);
    expect(state).toEqual(before);
  });

  it('has the same id whenever it is made, and another in another clone', () => {
    expect(copyIdOf(clone, self)).toBe(copyIdOf(clone, self));
    expect(copyIdOf(randomId(), self)).not.toBe(copyIdOf(clone, self));
  });
});

describe('a transplanted secret', () => {
  it('comes from the object that is named', () => {
    const value = ring.seal('x', { tenant, kind: 'machine', id: 'a', path: 'p' });
    expect(() => ring.transplant(value, { tenant, kind: 'machine', from: 'b', to: 'c' })).toThrow('another object');
    expect(() => ring.transplant(value, { tenant: 'other', kind: 'machine', from: 'a', to: 'c' })).toThrow('moved');
  });
});

it('the copy of a volume begins empty, also if the volume began as a copy', () => {
  const volume = desiredState('volume', { copy_from: { docker_volume: 'blog_data', containers: ['blog'] } });
  const of = { tenant, kind: 'volume', id: randomId(), copyId: randomId(), idOf: () => undefined };
  const { copy_from: _, ...rest } = volume;
  expect(copyDesired(copyRuleOf('volume') as CopyRule<unknown>, { ...of, desired: volume }, ring)).toEqual(rest);
});

it('a database is not copied without its volume: its copy would have that of its source', () => {
  const id = randomId();
  const password = ring.seal('sesame', { tenant, kind: 'database', id, path: 'password' });
  const desired = desiredState('database', { password });
  const of = { tenant, kind: 'database', id, copyId: randomId(), desired };
  const ofDatabase = copyRuleOf('database') as CopyRule<unknown>;
  expect(() => copyDesired(ofDatabase, { ...of, idOf: () => undefined }, ring)).toThrow('data_volume_id');
  const copy = copyDesired(ofDatabase, { ...of, idOf: (from) => copyIdOf(of.copyId, from) }, ring);
  expect(copy).toMatchObject({ data_volume_id: copyIdOf(of.copyId, desired.data_volume_id) });
});

describe('the kinds', () => {
  const withEnvironment = allKinds.filter((kind) => 'environment_id' in kinds[kind].desired.shape);

  it.each(withEnvironment)('%s says whether it is copied with its environment', (kind) => {
    expect(definitionOf(kind).clone, 'Add `clone` to its definition').toBeDefined();
  });

  it.each([...copiedKinds])('%s is found by its environment, and its references are fields of it', (kind) => {
    const definition = definitionOf(kind);
    expect(definition.indexes).toHaveProperty('environment');
    const { references } = definition.clone as CopyRule<never>;
    expect(references).toContain('environment_id');
    const fields = Object.keys(kinds[kind].desired.shape);
    for (const path of references) expect(fields).toContain(path.split('.')[0]);
    for (const path of forgottenIds(definition))
      expect.fail(
        `Add ${path} to \`clone.references\` of ${kind}, so that a copy leads to copies and to servers of the clone, ` +
          'or say in this file why its id stays',
      );
  });

  it.each(['server_id', 'spare.*', 'links.*', 'mounts.*.volume_id', 'either.server_id', 'pair.1'])(
    'are found to lack %s among their references',
    (path) => {
      const desired = z.object({
        project_id: Id,
        server_id: Id,
        spare: z.array(Id),
        links: z.record(z.string(), Id),
        mounts: z.array(z.object({ volume_id: Id.optional(), path: z.string() })).default([]),
        either: z.union([z.object({ server_id: Id.nullable() }), z.string()]),
        pair: z.tuple([z.string(), Id]),
      });
      const references = idPathsOf(z.toJSONSchema(desired));
      expect(forgottenIds({ desired, clone: { references } })).toEqual([]);
      expect(forgottenIds({ desired, clone: { references: references.filter((it) => it !== path) } })).toEqual([path]);
    },
  );

  it('leave out of a copied application what its source has lived through', () => {
    const [environment, server, id, copyId] = [randomId(), randomId(), randomId(), randomId()];
    const desired = desiredState('application', {
      environment_id: environment,
      server_id: server,
      name: 'Shop ✓',
      run: 'running',
      restart_token: 'again',
      capabilities: ['NET_RAW'],
      deployment_id: randomId(),
      next_deployment_number: 9,
      replicas: 3,
    });
    const { deployment_id: _, restart_token: __, capabilities: ___, ...rest } = desired;
    const idOf = (of: string) => (of === environment ? 'clone' : of === server ? 'moved' : undefined);
    const applicationRule = definitionOf('application').clone as CopyRule<unknown>;
    const copy = copyDesired(applicationRule, { tenant, kind: 'application', id, desired, copyId, idOf }, ring);
    expect(copy).toEqual({
      ...rest,
      environment_id: 'clone',
      server_id: 'moved',
      internal_id: `shop-${copyId.slice(0, 6)}`,
      run: 'stopped',
      next_deployment_number: 1,
    });
  });
});
