import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { endpoints } from '../../api/endpoints.ts';
import { defineEndpoint, routeName } from '../../api/endpoint.ts';
import { columns, permissions } from '../../api/permissions.ts';
import { createRouter } from '../../api/router.ts';
import { streams } from '../../api/streams/streams.ts';

/** Every route of the specification with what each column allows; additive routes are not in it. */
const specified = new Map(
  readFileSync(new URL('routes.txt', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [method, path, ...grants] = line.split(' ');
      return [`${method} ${path}`, grants.join(' ')] as const;
    }),
);

const served = new Set([...endpoints.map(routeName), ...streams.map(({ path }) => `WS ${path}`)]);

describe('the table of permissions', () => {
  it('has every route of the specification with the rights it gives', () => {
    for (const [name, grants] of specified) {
      const row = permissions.get(name);
      expect(row && columns.map((column) => row.grants[column]).join(' '), name).toBe(grants);
    }
  });

  it('has a row for every route that is served', () => {
    for (const name of served) expect(permissions.has(name), name).toBe(true);
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

  it('tells which routes of the specification are served', () => {
    const missing = [...specified.keys()].filter((name) => !served.has(name));
    const areas = Map.groupBy(missing, (name) => name.split(/[ /]+/)[1] ?? '');
    const lines = [...areas].map(([area, names]) => `${area}: ${names.length}`);
    console.log(`${specified.size - missing.length} of ${specified.size} routes served; missing: ${lines.join(', ')}`);
    expect(specified.size - missing.length).toBeGreaterThan(55);
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
