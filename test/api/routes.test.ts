import { describe, expect, it } from 'vitest';
import { ApiConfig } from '../../api/ground/config.ts';
import { endpoints, endpointsByArea } from '../../api/routes/endpoints.ts';
import { openApiDocument } from '../../api/pages/openapi.ts';
import { defineEndpoint, routeName } from '../../api/endpoint/endpoint.ts';
import { isPublic, permissions } from '../../api/rights/permissions.ts';
import { createRouter } from '../../api/request/router.ts';
import { streams } from '../../api/streams/streams.ts';
import { contractGrants, expectedRoutes } from '../harness/route-table.ts';

const served = new Set([...endpoints.map(routeName), ...streams.map(({ path }) => `WS ${path}`)]);

describe('SEC-29: the table of permissions', () => {
  it('gives every route the rights and the scope that are expected of it, and has no other route', () => {
    expect([...permissions.keys()].toSorted()).toEqual([...expectedRoutes.keys()].toSorted());
    for (const [name, row] of permissions)
      expect(expectedRoutes.get(name), name).toMatchObject({ ...row, scope: isPublic(row) ? 'none' : row.scope });
  });

  it('gives every route of the contract the rights that the contract gives', () => {
    expect(contractGrants.size).toBe(163);
    for (const [name, grants] of contractGrants) expect(expectedRoutes.get(name)?.grants, name).toEqual(grants);
  });

  it('belongs to a server that serves exactly the routes that are not for later', () => {
    const expected = [...expectedRoutes].filter(([, { isServed }]) => isServed).map(([name]) => name);
    expect([...served].toSorted(), 'Take `later` from the rows of test/api/routes.txt that are served').toEqual(
      expected.toSorted(),
    );
  });

  it('keeps a route without a row from being mounted', () => {
    const stray = defineEndpoint({
      method: 'POST',
      path: '/projects',
      summary: 'stray',
      handle: async () => undefined,
    });
    const unnamed = { ...stray, path: '/nowhere' as '/projects' };
    expect(() => createRouter([unnamed])).toThrow('Cannot mount route as it has no permission: POST /nowhere');
    expect(() => createRouter([stray, stray])).toThrow('Route is there twice: POST /projects');
  });
});

describe('the router', () => {
  const match = createRouter(endpoints);

  it('prefers a fixed segment over a parameter', () => {
    expect(match('GET', '/applications/check-name')?.route.endpoint.path).toBe('/applications/check-name');
    expect(match('GET', '/applications/1')?.route.endpoint.path).toBe('/applications/:id');
  });

  it('names the parameters', () => {
    const found = match('GET', '/projects/p1/environments/e1');
    expect(Object.fromEntries(found?.params ?? [])).toEqual({ projectId: 'p1', envId: 'e1' });
  });

  it('finds nothing for another method, an empty segment, or a longer path', () => {
    expect(match('PATCH', '/projects/1')).toBeUndefined();
    expect(match('GET', '/projects//environments')).toBeUndefined();
    expect(match('GET', '/projects/1/environments/2/3')).toBeUndefined();
    expect(match('GET', '/projects/')?.route.endpoint.path).toBe('/projects');
  });
});

describe('the document of the interface', () => {
  it('offers a service key for every route that lets one in, and for no other', () => {
    const config = ApiConfig.parse({ version: '1.2.3', publicUrl: 'http://setpoint.test' });
    const document: { paths: Record<string, Record<string, { security: object[] }>> } = JSON.parse(
      JSON.stringify(openApiDocument(endpointsByArea, config)),
    );
    const offered = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { security }]) => security.some((one) => 'serviceKey' in one))
        .map(
          ([method]) => `${method.toUpperCase()} ${path.replace(/^.*\/api\/v1/, '').replaceAll(/\{(\w+)\}/g, ':$1')}`,
        ),
    );
    const expected = [...expectedRoutes].filter(
      ([name, { isServed, scope }]) => isServed && !name.startsWith('WS') && scope !== 'none' && scope !== 'session',
    );
    expect(offered.toSorted()).toEqual(expected.map(([name]) => name).toSorted());
  });
});
