import { z } from 'zod';
import { createDocument } from 'zod-openapi';
import { statusOfCode } from '../ground/api-error.ts';
import type { ErrorCode } from '../ground/api-error.ts';
import type { AnyEndpoint } from '../endpoint/endpoint.ts';
import { isDownload } from '../endpoint/endpoint.ts';
import { isPublic, permissionOf } from '../rights/permissions.ts';
import type { Permission } from '../rights/permissions.ts';

const ErrorBody = z
  .object({
    success: z.literal(false),
    error: z.object({
      code: z.enum(Object.keys(statusOfCode) as [string, ...string[]]), // the list is not empty
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
    .meta({ description: 'Seconds to wait until the answered object has settled or failed' }),
});

const description = `Everything below is under \`/<tenant>\`; a fresh installation has the tenant \`default\`.

**Answers** are in an envelope: \`data\` or \`error\`, lists with \`meta\`. Times are RFC 3339 in UTC.

**Changes** are desired state: an answer comes at once, with a state that shows what is under way, and \`?wait=SECONDS\`
answers when that has come to its end. A PUT changes the fields that it carries; an answer of a GET can be changed and
sent back. \`null\` clears an optional field. \`If-Match\` with a version that is not the present one is refused (409).

**Repeating** a POST with the same \`Idempotency-Key\` within 24 hours answers as the first did.

**Streams** are WebSockets below \`/<tenant>/ws\`: \`/deployments/{id}/logs\`, \`/applications/{id}/logs\`,
\`/servers/{id}/metrics\`, \`/notifications\`, \`/watch\`. Frames are JSON with a \`type\`; the first is \`ready\`. The
\`cursor\` of the last frame that had one resumes as \`?cursor=\`.`;

const json = 'application/json';
const text = { type: 'string' } as const;

/** Headers of answers; all answers have the first two. */
const headers = {
  'x-service-version': { description: 'Release of the server', schema: text },
  'x-request-id': { description: 'Id of the request, as its log lines have it', schema: text },
  'RateLimit-Limit': { description: 'Requests per minute', schema: { type: 'integer' } },
  'RateLimit-Remaining': { description: 'Requests left at this moment', schema: { type: 'integer' } },
  'RateLimit-Reset': { description: 'Seconds until all of them are there again', schema: { type: 'integer' } },
  'Retry-After': { description: 'Seconds after which a retry makes sense', schema: { type: 'integer' } },
  ETag: { description: 'The `resource_version` of the object, quoted', schema: text },
} as const;

const parameters = {
  'If-Match': {
    name: 'If-Match',
    in: 'header',
    schema: text,
    description: 'The version that is to be changed, quoted as in ETag; another present one is 409',
  },
  'If-None-Match': { name: 'If-None-Match', in: 'header', schema: text, description: 'A version that is known: 304' },
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    schema: { type: 'string', maxLength: 255 },
    description: 'Names the request: repeated within 24 hours it is answered as the first time',
  },
} as const;

const errors: Readonly<Record<ErrorCode, string>> = {
  BAD_REQUEST: 'The request is malformed, or a field of it is wrong: `details` name it',
  UNAUTHORIZED: 'No credential, or one that is not good',
  FORBIDDEN: 'Known, and not allowed',
  NOT_FOUND: 'There is no such object in the tenant',
  CONFLICT: 'A name that is taken, a state that does not allow it, or a version that is not the present one',
  TOO_MANY_REQUESTS: 'Too many requests, or failed logins',
  INTERNAL_ERROR: 'A bug of the server',
  SERVICE_UNAVAILABLE: 'The store, or an agent that is needed for the answer, is away',
};

type PathItem = Record<string, unknown>;

/** The OpenAPI document of the endpoints, made from the schemas that validate requests. */
export function openApiDocument(
  endpointsByArea: Readonly<Record<string, Readonly<Record<string, AnyEndpoint>>>>,
  { version, publicUrl }: { version: string; publicUrl: string },
): ReturnType<typeof createDocument> {
  const paths: Record<string, PathItem> = {};
  for (const [area, endpoints] of Object.entries(endpointsByArea)) {
    for (const [name, endpoint] of Object.entries(endpoints)) {
      const path = `/api/v1${endpoint.path.replaceAll(/:([A-Za-z]+)/g, '{$1}')}`;
      paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(area, name, endpoint) };
    }
  }
  return createDocument(
    {
      openapi: '3.1.0',
      info: {
        title: 'Setpoint',
        version,
        description,
        license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: `${publicUrl}/{tenant}`, variables: { tenant: { default: 'default' } } }],
      tags: Object.keys(endpointsByArea).map((name) => ({ name })),
      components: {
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          serviceKey: { type: 'apiKey', in: 'header', name: 'x-service-key' },
        },
        headers,
        parameters,
        responses: Object.fromEntries(
          // the keys are codes
          Object.entries(errors).map(([code, what]) => [code, errorResponse(code as ErrorCode, what)]),
        ),
      },
      paths,
    },
    { override: ({ jsonSchema }) => tidy(jsonSchema) },
  );
}

function errorResponse(code: ErrorCode, what: string) {
  const mayRetry = code === 'TOO_MANY_REQUESTS' || code === 'SERVICE_UNAVAILABLE';
  return {
    description: what,
    headers: referredHeaders(mayRetry ? ['Retry-After'] : []),
    content: { [json]: { schema: ErrorBody } },
  };
}

function referredHeaders(more: readonly (keyof typeof headers)[]): Record<string, { $ref: string }> {
  const names = ['x-service-version', 'x-request-id', ...more];
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/**
 * Removes what is of no use to a reader: the bounds of safe integers that JSON Schema adds, and fields that are another
 * spelling of a field (listed in `hidden` of a schema).
 */
function tidy(schema: Record<string, unknown>): void {
  if (schema['maximum'] === Number.MAX_SAFE_INTEGER) delete schema['maximum'];
  if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum'];
  const { hidden, properties } = schema;
  if (!Array.isArray(hidden) || typeof properties !== 'object' || properties === null) return;
  for (const name of hidden) Reflect.deleteProperty(properties, String(name));
  delete schema['hidden'];
}

function operation(area: string, name: string, endpoint: AnyEndpoint): PathItem {
  const permission = permissionOf(endpoint.method, endpoint.path);
  const isOpen = isPublic(permission);
  const path = [...endpoint.path.matchAll(/:([A-Za-z]+)/g)].map(([, param = '']) => param);
  const query = queryOf(endpoint);
  const body = bodyOf(endpoint);
  return {
    operationId: name,
    summary: endpoint.summary,
    tags: [area],
    security: securityOf(permission),
    parameters: headersOf(endpoint, isOpen).map((header) => ({ $ref: `#/components/parameters/${header}` })),
    requestParams: {
      ...(path.length > 0 && { path: z.object(Object.fromEntries(path.map((param) => [param, idOf(param)]))) }),
      ...(query !== undefined && { query }),
    },
    ...(body !== undefined && {
      requestBody: { required: true, content: contentOf(endpoint, body) },
    }),
    responses: { ...success(endpoint), ...failures(endpoint) },
  };
}

function securityOf(permission: Permission): Record<string, string[]>[] {
  if (isPublic(permission)) return [];
  return permission.scope === 'session' ? [{ token: [] }] : [{ token: [] }, { serviceKey: [] }];
}

/** The token of an invite is not an id. */
function idOf(param: string): z.ZodType {
  return param === 'token' ? z.string() : z.guid();
}

function headersOf(endpoint: AnyEndpoint, isOpen: boolean): (keyof typeof parameters)[] {
  if (isDownload(endpoint)) return ['If-None-Match'];
  if (endpoint.method === 'POST') return isOpen ? [] : ['Idempotency-Key'];
  const hasVersion = endpoint.on !== undefined || endpoint.ofCaller === true;
  return endpoint.method !== 'GET' && hasVersion ? ['If-Match'] : [];
}

/** The schema of a body. That of a PUT also allows the read-only fields of the answer, which have no effect. */
function bodyOf(endpoint: AnyEndpoint): z.ZodType | undefined {
  if (endpoint.list || isDownload(endpoint)) return undefined;
  const { body, readOnly = [], response } = endpoint;
  if (!(body instanceof z.ZodObject) || !(response instanceof z.ZodObject)) return body;
  const shape: Record<string, z.ZodType> = response.shape;
  const ignored = readOnly.map((field) => [
    field,
    (shape[field] ?? z.unknown())
      .optional()
      .meta({ description: 'Read-only: it may be sent back, and changes nothing' }),
  ]);
  return body.extend(Object.fromEntries(ignored)).meta(body.meta() ?? {});
}

/** JSON or a form where the endpoint takes either. */
function contentOf(endpoint: AnyEndpoint, body: z.ZodType): Record<string, { schema: z.ZodType }> {
  if (endpoint.streamed === undefined || !(body instanceof z.ZodObject))
    return { [bodyType(endpoint)]: { schema: body } };
  return {
    [json]: { schema: body.omit({ file: true }) },
    [formType]: { schema: body.pick({ file: true }) },
  };
}

const formType = 'multipart/form-data';

function bodyType({ upload, raw }: AnyEndpoint): string {
  if (raw !== undefined) return 'application/octet-stream';
  return upload === undefined ? json : formType;
}

function queryOf(endpoint: AnyEndpoint): z.ZodType | undefined {
  if (endpoint.list || endpoint.settle === undefined) return endpoint.query;
  return endpoint.query instanceof z.ZodObject ? endpoint.query.extend(WaitQuery.shape) : WaitQuery;
}

const limited = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const;

function success(endpoint: AnyEndpoint): PathItem {
  if (endpoint.list) {
    const schema = z.object({ success: z.literal(true), data: z.array(endpoint.item), meta: ListMeta });
    return { 200: { description: 'A page', headers: referredHeaders(limited), content: { [json]: { schema } } } };
  }
  if (isDownload(endpoint)) {
    const content = Object.fromEntries(endpoint.types.map((type) => [type, {}]));
    const tagged = referredHeaders([...limited, 'ETag']);
    return {
      200: { description: 'The bytes', headers: tagged, content },
      304: { description: 'They are those of If-None-Match', headers: tagged },
    };
  }
  const { response } = endpoint;
  if (response === undefined) return { 204: { description: 'Done', headers: referredHeaders(limited) } };
  const isVersioned = response instanceof z.ZodObject && 'resource_version' in response.shape;
  const schema = z.object({ success: z.literal(true), data: response });
  const all = referredHeaders(isVersioned ? [...limited, 'ETag'] : limited);
  return { [endpoint.status ?? 200]: { description: 'Done', headers: all, content: { [json]: { schema } } } };
}

/** The possible errors, by status. A read changes nothing and therefore has no conflict. */
function failures(endpoint: AnyEndpoint): PathItem {
  // the keys are codes
  const codes = (Object.keys(errors) as ErrorCode[]).filter((code) => code !== 'CONFLICT' || endpoint.method !== 'GET');
  return Object.fromEntries(codes.map((code) => [statusOfCode[code], { $ref: `#/components/responses/${code}` }]));
}
