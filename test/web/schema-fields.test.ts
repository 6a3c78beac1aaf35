import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { openApiDocument } from '../../api/pages/openapi.ts';
import { endpointsByArea } from '../../api/routes/endpoints.ts';
import { faultOf, fieldsOf, labelOf } from '../../web/parts/schema-fields.ts';
import type { Definitions, FieldSpec, JsonSchema } from '../../web/parts/schema-fields.ts';

const Bodies = z.object({
  paths: z.record(z.string(), z.record(z.string(), z.looseObject({}))),
  components: z.object({ schemas: z.record(z.string(), z.looseObject({})) }),
});
const document = Bodies.parse(
  JSON.parse(JSON.stringify(openApiDocument(endpointsByArea, { version: '0', publicUrl: '' }))),
);
const definitions: Definitions = document.components.schemas;

/** Every body that a form could send, by its endpoint. */
function* bodies(): Generator<[endpoint: string, schema: JsonSchema]> {
  const Content = z.object({
    requestBody: z.object({ content: z.object({ 'application/json': z.object({ schema: z.looseObject({}) }) }) }),
  });
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const found = Content.safeParse(operation);
      if (found.success) yield [`${method} ${path}`, found.data.requestBody.content['application/json'].schema];
    }
}

const fieldsOfBody = (endpoint: string): Map<string, FieldSpec> => {
  const schema = new Map(bodies()).get(endpoint);
  if (schema === undefined) throw new Error(`No body of ${endpoint}`);
  return new Map(fieldsOf(schema, definitions).map((field) => [field.name, field]));
};

describe('the fields of a served schema', () => {
  test('are made for every body of the document', () => {
    const all = [...bodies()];
    expect(all.length).toBeGreaterThan(50);
    for (const [, schema] of all) for (const field of fieldsOf(schema, definitions)) expect(field.label).not.toBe('');
  });

  test('of a server have its limits, and say what is needed and what may be null', () => {
    const fields = fieldsOfBody('post /api/v1/servers');
    expect(fields.get('name')).toMatchObject({ kind: 'text', isRequired: true, maxLength: 100, isNullable: false });
    expect(fields.get('port')).toMatchObject({
      kind: 'number',
      isWhole: true,
      minimum: 1,
      maximum: 65_535,
      isNullable: true,
    });
    expect(fields.get('direct_ports_enabled')).toMatchObject({ kind: 'switch', isNullable: true });
    expect(fields.get('labels')?.kind).toBe('map');
    expect(fields.get('sshKeyId')?.label).toBe('SSH key');
    const ingress = fields.get('ingress');
    expect(ingress?.kind).toBe('group');
    expect(ingress?.fields.map(({ name }) => name)).toContain('acme_email');
  });

  test('of a change lack what only the server sets', () => {
    const fields = fieldsOfBody('put /api/v1/settings/registries/{id}');
    expect(fields.has('generation')).toBe(false);
    expect(fields.get('password')?.kind).toBe('secret');
  });

  test('have choices from an enumeration', () => {
    expect(fieldsOfBody('put /api/v1/settings').get('project_creation')).toMatchObject({
      kind: 'choice',
      options: ['users', 'admins'],
    });
  });
});

describe('a value of a field', () => {
  const fields = fieldsOfBody('post /api/v1/servers');
  const fault = (name: string, value: unknown): string | undefined => faultOf(fields.get(name)!, value);

  test('is judged by the limits of the schema', () => {
    expect(fault('name', '')).toBe('Name is needed');
    expect(fault('name', ' spaced ')).toContain('cannot be');
    expect(fault('name', 'x'.repeat(101))).toBe('Name has at most 100 characters');
    expect(fault('port', 70_000)).toBe('Port is at most 65535');
    expect(fault('port', 1.5)).toBe('Port is a whole number');
    expect(fault('port', 'ssh')).toBe('Port is a number');
  });

  test('is right within them, or empty where it may be', () => {
    expect([fault('name', 'fsn1'), fault('port', 22), fault('port', null), fault('ipAddress', undefined)]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

test('names of fields become words', () => {
  expect(['log_retention_days', 'sshKeyId', 'acme_ca', 'repository_url', 'id'].map(labelOf)).toEqual([
    'Log retention days',
    'SSH key',
    'ACME CA',
    'Repository URL',
    'Id',
  ]);
});
