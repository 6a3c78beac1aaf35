import { z } from 'zod';
import { createDocument } from 'zod-openapi';
import { statusOfCode } from './api-error.ts';
import type { AnyEndpoint } from './endpoint.ts';
import { isDownload, routeName } from './endpoint.ts';
import { isPublic } from './permissions.ts';
import { permissionOf } from './permissions.ts';

const ErrorBody = z
  .object({
    success: z.literal(false),
    error: z.object({
      code: z.enum(Object.keys(statusOfCode) as [string, ...string[]]), // an object has its keys
      message: z.string(),
      details: z.array(z.object({ field: z.string(), reason: z.string(), message: z.string() })).optional(),
      request_id: z.string(),
    }),
  })
  .meta({ id: 'Error' });

const ListMeta = z
  .object({
    next_cursor: z.string().nullable(),
    limit: z.int(),
    total: z.int().nullable(),
    unread: z.int().optional().meta({ description: 'Of notifications: how many one has not read' }),
  })
  .meta({ id: 'ListMeta' });

const WaitQuery = z.object({
  wait: z
    .int()
    .min(0)
    .max(300)
    .optional()
    .meta({ description: 'Seconds to wait until the object has settled or failed' }),
});

type PathItem = Record<string, unknown>;

/** The OpenAPI document of the endpoints, made from the schemas that validate. */
export function openApiDocument(
  endpointsByArea: Readonly<Record<string, readonly AnyEndpoint[]>>,
  { version, publicUrl }: { version: string; publicUrl: string },
): ReturnType<typeof createDocument> {
  const paths: Record<string, PathItem> = {};
  for (const [area, endpoints] of Object.entries(endpointsByArea)) {
    for (const endpoint of endpoints) {
      const path = `/api/v1${endpoint.path.replaceAll(/:([A-Za-z]+)/g, '{$1}')}`;
      paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(area, endpoint) };
    }
  }
  return createDocument(
    {
      openapi: '3.1.0',
      info: { title: 'Setpoint', version },
      servers: [{ url: `${publicUrl}/{tenant}`, variables: { tenant: { default: 'default' } } }],
      components: {
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          serviceKey: { type: 'apiKey', in: 'header', name: 'x-service-key' },
        },
      },
      paths,
    },
    { override: ({ jsonSchema }) => dropSafeBounds(jsonSchema) },
  );
}

/** JSON Schema's own bounds of safe integers say nothing to a reader. */
function dropSafeBounds(schema: Record<string, unknown>): void {
  if (schema['maximum'] === Number.MAX_SAFE_INTEGER) delete schema['maximum'];
  if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum'];
}

function operation(area: string, endpoint: AnyEndpoint): PathItem {
  const name = routeName(endpoint);
  const isOpen = isPublic(permissionOf(endpoint.method, endpoint.path));
  const parameters = [...endpoint.path.matchAll(/:([A-Za-z]+)/g)].map(([, param = '']) => param);
  const query = queryOf(endpoint);
  return {
    operationId: name.replaceAll(/[^A-Za-z0-9]+/g, '_').replace(/_$/, ''),
    summary: endpoint.summary,
    tags: [area],
    security: isOpen ? [] : [{ token: [] }, { serviceKey: [] }],
    requestParams: {
      ...(parameters.length > 0 && {
        path: z.object(Object.fromEntries(parameters.map((param) => [param, z.guid()]))),
      }),
      ...(query !== undefined && { query }),
    },
    ...(!endpoint.list &&
      endpoint.body !== undefined && { requestBody: { content: { [bodyType(endpoint)]: { schema: endpoint.body } } } }),
    responses: {
      ...success(endpoint),
      default: { description: 'Error', content: { 'application/json': { schema: ErrorBody } } },
    },
  };
}

function bodyType({ upload }: AnyEndpoint): string {
  return upload === undefined ? 'application/json' : 'multipart/form-data';
}

function queryOf(endpoint: AnyEndpoint): z.ZodType | undefined {
  if (endpoint.list || endpoint.settle === undefined) return endpoint.query;
  return endpoint.query instanceof z.ZodObject ? endpoint.query.extend(WaitQuery.shape) : WaitQuery;
}

function success(endpoint: AnyEndpoint): PathItem {
  if (endpoint.list) {
    const schema = z.object({ success: z.literal(true), data: z.array(endpoint.item), meta: ListMeta });
    return { 200: { description: 'A page', content: { 'application/json': { schema } } } };
  }
  if (isDownload(endpoint)) {
    const content = Object.fromEntries(endpoint.types.map((type) => [type, {}]));
    return { 200: { description: 'The bytes', content }, 304: { description: 'Not another one than If-None-Match' } };
  }
  if (endpoint.response === undefined) return { 204: { description: 'Done' } };
  const schema = z.object({ success: z.literal(true), data: endpoint.response });
  return { [endpoint.status ?? 200]: { description: 'Done', content: { 'application/json': { schema } } } };
}
