import { describe, expect, it } from 'vitest';
import { endpointsByArea } from '../../api/routes/endpoints.ts';
import { openApiDocument } from '../../api/pages/openapi.ts';

interface Named {
  name?: string;
  in?: string;
  $ref?: string;
  schema?: { enum?: string[]; items?: { enum?: string[] } };
}
interface Operation {
  operationId: string;
  summary: string;
  parameters?: Named[];
  requestBody?: { content: Record<string, { schema: { properties?: object; required?: string[] } }> };
  responses: Record<string, { $ref?: string; headers?: object }>;
}

const document = openApiDocument(endpointsByArea, { version: '1', publicUrl: 'http://setpoint.test' });
const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
  Object.entries(item as Record<string, Operation>).map(
    ([method, operation]) => [`${method.toUpperCase()} ${path.replace('/api/v1', '')}`, operation] as const,
  ),
);
const byRoute = new Map<string, Operation>(operations);
const of = (route: string): Operation => byRoute.get(route)!;
const headersOf = ({ parameters = [] }: Operation) =>
  parameters.flatMap(({ $ref }) => $ref?.replace('#/components/parameters/', '') ?? []);
const bodyOf = (route: string) => of(route).requestBody!.content['application/json']!.schema;

describe('the operations of the document', () => {
  it('have names of their own, which are good names in any language', () => {
    const names = operations.map(([, { operationId }]) => operationId);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[a-z]+([A-Z][a-z]+)*$/);
  });

  it.each([
    ['POST /auth/login', 'login'],
    ['GET /auth/me', 'getMe'],
    ['PUT /auth/me/password', 'changePassword'],
    ['POST /auth/me/set-initial-password', 'setInitialPassword'],
    ['GET /projects', 'listProjects'],
    ['PUT /projects/{id}', 'updateProject'],
    ['POST /projects/{projectId}/environments/{envId}/clone', 'cloneEnvironment'],
    ['POST /servers', 'createServer'],
    ['POST /applications/{id}/deploy', 'deployApplication'],
    ['POST /applications/{id}/rollback', 'rollbackApplication'],
    ['PATCH /applications/{id}/env', 'mergeEnv'],
    ['GET /applications/{appId}/deployments', 'listDeployments'],
    ['POST /deployments/{id}/cancel', 'cancelDeployment'],
  ])('%s is called %s', (route, name) => {
    expect(of(route).operationId).toBe(name);
  });

  it('say which headers they look at', () => {
    for (const [route, operation] of operations) {
      const [method] = route.split(' ');
      const isOpen =
        /\/auth\/(login|logout|register|send-code|verify-code|setup-status)$/.test(route) ||
        route === 'POST /webhooks/git/{id}';
      const expected: Record<string, string[]> = {
        POST: isOpen ? [] : ['Idempotency-Key'],
        PUT: /\{|^PUT \/(settings|auth\/me|auth\/me\/password)$/.test(route) ? ['If-Match'] : [],
        PATCH: ['If-Match'],
        DELETE: /\{/.test(route) ? ['If-Match'] : [],
        GET: route === 'GET /projects/{id}/icon' ? ['If-None-Match'] : [],
      };
      expect(headersOf(operation), route).toEqual(expected[method!]);
    }
  });

  it('say what can go wrong by its status, and which headers an answer has', () => {
    for (const [route, { responses }] of operations) {
      const wrong = route.startsWith('GET') ? [400, 401, 403, 404] : [400, 401, 403, 404, 409];
      expect(Object.keys(responses), route).toEqual(expect.arrayContaining([...wrong, 429, 500, 503].map(String)));
      const success = Object.entries(responses).find(([status]) => status.startsWith('2'))![1];
      expect(Object.keys(success.headers ?? {}), route).toEqual(
        expect.arrayContaining(['x-service-version', 'x-request-id', 'RateLimit-Limit']),
      );
    }
    expect(of('GET /projects/{id}').responses['200']!.headers).toHaveProperty('ETag');
    expect(document.components?.responses?.['TOO_MANY_REQUESTS']).toHaveProperty('headers.Retry-After');
  });

  it('enumerate states and orders of lists, and where a change can be waited for', () => {
    const parameter = (route: string, name: string) => of(route).parameters!.find((one) => one.name === name);
    expect(parameter('GET /applications', 'status')?.schema?.items?.enum).toContain('deploying');
    expect(parameter('GET /applications', 'sort')?.schema?.enum).toContain('-name');
    expect(parameter('GET /auth/sessions', 'status')).toBeUndefined();
    expect(parameter('POST /applications/{id}/deploy', 'wait')).toBeDefined();
  });

  it('show one way to write each field', () => {
    const fields = (route: string) => Object.keys(bodyOf(route).properties ?? {});
    expect(fields('POST /servers')).toEqual(expect.arrayContaining(['ipAddress', 'sshKeyId']));
    expect(fields('POST /servers')).not.toEqual(expect.arrayContaining(['ip_address']));
    expect(fields('PUT /servers/{id}')).not.toEqual(expect.arrayContaining(['ipAddress']));
    expect(bodyOf('POST /auth/me/set-initial-password').required).toEqual(['password']);
    for (const [route, { requestBody }] of operations) {
      const names = Object.values(requestBody?.content ?? {}).flatMap(({ schema }) =>
        Object.keys(schema.properties ?? {}),
      );
      const plain = names.map((name) => name.replaceAll('_', '').toLowerCase());
      expect(new Set(plain).size, route).toBe(plain.length);
    }
  });

  it('take a whole answer of a GET in a PUT', () => {
    for (const [route, kind] of [
      ['PUT /projects/{id}', 'Project'],
      ['PUT /servers/{id}', 'Server'],
      ['PUT /applications/{id}', 'Application'],
      ['PUT /projects/{projectId}/environments/{envId}', 'Environment'],
      ['PUT /users/{id}', 'Account'],
      ['PUT /auth/me', 'User'],
    ] as const) {
      const answer = document.components?.schemas?.[kind] as { properties: object };
      expect(Object.keys(bodyOf(route).properties!), route).toEqual(
        expect.arrayContaining(Object.keys(answer.properties)),
      );
    }
  });
});
