import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createPasswords } from '../../api/auth/passwords.ts';
import type { AnyEndpoint } from '../../api/endpoint/endpoint.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { permissions } from '../../api/rights/permissions.ts';
import { password, startApi } from '../harness/api.ts';
import type { Answer, ApiWorld } from '../harness/api.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';
import { exampleOf, named } from './examples.ts';

/** Whatever is sent to a route that writes: what is wrong is refused as such, and nothing is written. */
let world: ApiWorld;
let passwordHash: string;

const unlimited = { perMinute: 0, burst: 1 };

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited } });
  passwordHash = await createPasswords().hash(password);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

interface Property {
  name: string;
  schema: z.core.JSONSchema.BaseSchema;
}

/** The fields that a body may have, over all its forms. */
function propertiesOf(endpoint: AnyEndpoint): Property[] {
  const body = 'body' in endpoint ? endpoint.body : undefined;
  if (body === undefined) return [];
  const json = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any', reused: 'inline' });
  const forms = [json, ...(json.anyOf ?? []), ...(json.oneOf ?? []), ...(json.allOf ?? [])];
  const found = new Map<string, z.core.JSONSchema.BaseSchema>();
  for (const form of forms)
    for (const [name, schema] of Object.entries(form.properties ?? {})) found.set(name, schema as Property['schema']);
  return [...found].map(([name, schema]) => ({ name, schema }));
}

function typesOf(schema: Property['schema']): ReadonlySet<string> {
  const forms = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  const types = forms.flatMap((form) => form.type ?? (form.const !== undefined ? typeof form.const : []));
  // a whole number is a number
  return new Set(types.flatMap((type) => (type === 'number' ? ['number', 'integer'] : [type])));
}

const ofType = {
  string: 'text',
  integer: 7,
  number: 7.5,
  boolean: true,
  array: [{ a: [1] }],
  object: { a: { b: 1 } },
} as const;

const everyField = new Set(endpoints.flatMap((endpoint) => propertiesOf(endpoint).map(({ name }) => name)));
/** What only the server writes, beside the fields that some route takes. */
const serverOwned = [
  'id',
  'tenant',
  'status',
  'role',
  'owner_id',
  'created_at',
  'generation',
  'resource_version',
  'conditions',
  'agent_id',
  'internal_id',
  'icon_path',
  'password_hash',
  'two_factor_enabled',
  'consecutive_failures',
  'current_deployment_id',
  'constructor',
  'prototype',
];
const foreignFields = [...new Set([...everyField, ...serverOwned])];

/** Fields whose text may also be sent as the number that it says. */
const alsoNumbers: ReadonlySet<string> = new Set(['cpu_limit']);

const writes = named.filter(
  ([, endpoint]) =>
    !['GET', 'DELETE'].includes(endpoint.method) && exampleOf(endpoint).upload !== true && endpoint.raw === undefined,
);
const withBody = writes.filter(([, endpoint]) => propertiesOf(endpoint).length > 0);

async function stageOf(name: string, endpoint: AnyEndpoint): Promise<Stage> {
  const example = exampleOf(endpoint);
  const row = permissions.get(name)!;
  const stage = await setStage(world, row.grants.owner === '-' ? 'superadmin' : 'owner', {
    ...(example.withPassword && { passwordHash }),
  });
  await example.before?.(stage);
  return stage;
}

/** A length that no text of the field may have: only few fields take more than this, and these say how much. */
function tooLong(schema: Property['schema']): number {
  const forms = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return Math.max(300_000, ...forms.map(({ maxLength }) => (maxLength ?? 0) + 1));
}

function send(endpoint: AnyEndpoint, stage: Stage, body: unknown): Promise<Answer> {
  const path = exampleOf(endpoint).path(stage);
  return ask(world, { method: endpoint.method, path, body }, stage.actor.by.token);
}

function good(endpoint: AnyEndpoint, stage: Stage): Record<string, unknown> {
  const body = exampleOf(endpoint).body?.(stage) ?? {};
  return body as Record<string, unknown>;
}

async function expectRefused(endpoint: AnyEndpoint, stage: Stage, body: unknown, field?: string): Promise<void> {
  const before = await world.store.revision();
  const answer = await send(endpoint, stage, body);
  const sent = (typeof body === 'string' ? body : JSON.stringify(body)).slice(0, 200);
  expect([answer.status, answer.body.error?.code, sent]).toEqual([400, 'BAD_REQUEST', sent]);
  expect(await world.store.revision()).toBe(before);
  if (field === undefined) return;
  expect(
    answer.body.error?.details?.some((one) => one.field.split('.')[0] === field),
    `${field} in ${JSON.stringify(answer.body.error)}`,
  ).toBe(true);
}

/** Routes to which no answer of a GET is sent back. */
const takeOtherBodies: Readonly<Record<string, string>> = {
  'PUT /auth/me/password': 'No answer shows a password',
  'PUT /applications/:id/capabilities': 'GET /applications/:id shows them as a field',
};
/** What another route does with an answer, beside taking it. */
const doMore: Readonly<Record<string, string>> = {
  'PUT /template-instances/:id': 'The answer names its template, and the instance gets the present text of that',
};
const updates = named.filter(([name, { method }]) => method === 'PUT' && !Object.hasOwn(takeOtherBodies, name));

/** What is to be sent back: by a GET of the path, else from the list that it is in. */
async function shownAt(stage: Stage, path: string): Promise<unknown> {
  const read = (at: string) => ask(world, { method: 'GET', path: at }, stage.actor.by.token);
  const { status, data } = await read(path);
  if (status === 200) return data;
  const [, list = '', id = ''] = /^(.*)\/([^/]+)$/.exec(path) ?? [];
  const found = (await read(list)).data.find((one: { id: string }) => one.id === id);
  if (found === undefined) throw new Error(`Neither GET ${path} nor GET ${list} shows it`);
  return found;
}

/** The fields of an answer that have a value, except its version. */
function givenIn(shown: unknown): object {
  const version = new Set(['generation', 'resource_version', 'updated_at']);
  const fields = Object.entries(typeof shown === 'object' && shown !== null ? shown : {});
  return Object.fromEntries(fields.filter(([name, value]) => value !== null && !version.has(name)));
}

describe('what a GET answers', () => {
  it.each(updates)('can be sent back by %s, and changes nothing', async (name, endpoint) => {
    const stage = await stageOf(name, endpoint);
    const path = exampleOf(endpoint).path(stage);
    const shown = await shownAt(stage, path);
    const answer = await send(endpoint, stage, shown);
    expect([answer.status, answer.body.error]).toEqual([200, undefined]);
    if (Object.hasOwn(doMore, name)) return;
    // a value that was left to its default may be kept as such, which is a version of its own
    expect(givenIn(await shownAt(stage, path))).toMatchObject(givenIn(shown));
  });

  it('is sent back to every other PUT', () => {
    const puts = named.filter(([, { method }]) => method === 'PUT').map(([name]) => name);
    expect(puts).toEqual(expect.arrayContaining(Object.keys(takeOtherBodies)));
    expect(updates.length).toBe(puts.length - Object.keys(takeOtherBodies).length);
  });
});

describe.each(writes)('the body of %s', (name, endpoint) => {
  it('is an object, in JSON, not deep, not long, and without __proto__', async () => {
    const stage = await stageOf(name, endpoint);
    const deep = `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`;
    const long = JSON.stringify({ a: 'x'.repeat(1024 * 1024) });
    for (const text of [
      '[]',
      '"text"',
      '1',
      'true',
      'null',
      '{',
      '{"a":1',
      'nonsense',
      '{"__proto__":{"role":"admin"}}',
      deep,
      long,
    ])
      await expectRefused(endpoint, stage, text);
  });

  it('has no field that its schema does not know', async () => {
    const known = new Set(propertiesOf(endpoint).map(({ name: one }) => one));
    const body = 'body' in endpoint ? endpoint.body : undefined;
    const isMap = body !== undefined && known.size === 0;
    if (isMap) return;
    const readOnly = ('readOnly' in endpoint && endpoint.readOnly) || [];
    const stage = await stageOf(name, endpoint);
    const foreign = foreignFields.filter((field) => !known.has(field) && !readOnly.includes(field));
    // all at once: the answer names each that is refused, and what it does not name is sent alone
    const before = await world.store.revision();
    const all = Object.fromEntries(foreign.map((field) => [field, 'text']));
    const { status, body: answer } = await send(endpoint, stage, { ...good(endpoint, stage), ...all });
    expect(status).toBe(400);
    expect(await world.store.revision()).toBe(before);
    const named = new Set(answer.error?.details?.map((one) => one.field.split('.')[0]));
    for (const field of foreign.filter((one) => !named.has(one)))
      await expectRefused(endpoint, stage, { ...good(endpoint, stage), [field]: 'text' }, field);
  });
});

describe.each(withBody)('a field of the body of %s', (name, endpoint) => {
  it('is of its type', async () => {
    const stage = await stageOf(name, endpoint);
    for (const { name: field, schema } of propertiesOf(endpoint)) {
      const types = typesOf(schema);
      if (types.size === 0) continue;
      for (const [type, value] of Object.entries(ofType)) {
        if (types.has(type) || (typeof value === 'number' && alsoNumbers.has(field))) continue;
        // an empty object is no record of text either
        await expectRefused(endpoint, stage, { ...good(endpoint, stage), [field]: value }, field);
      }
    }
  });

  it('is not longer than it may be', async () => {
    const stage = await stageOf(name, endpoint);
    for (const { name: field, schema } of propertiesOf(endpoint)) {
      const types = typesOf(schema);
      if (types.has('string')) {
        const answer = await send(endpoint, stage, { ...good(endpoint, stage), [field]: 'x'.repeat(tooLong(schema)) });
        expect([field, answer.status]).toEqual([field, exampleOf(endpoint).wrongValue ?? 400]);
      }
      if (types.has('array'))
        await expectRefused(endpoint, stage, { ...good(endpoint, stage), [field]: Array(20_000).fill('x') }, field);
    }
  });
});
