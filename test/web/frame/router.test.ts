import { afterEach, describe, expect, it, vi } from 'vitest';
import { hrefOf, matched, pageAt, placeOf, Router, tenantIn } from '../../../web/frame/router.ts';
import { pages } from '../../../web/pages/pages.ts';

const id = '0b9d4a3c-6a55-4e0f-9c55-1d1f6d1f2a11';

describe('an address of the console', () => {
  it.each([
    ['', 'acme', '/'],
    ['#/', 'acme', '/'],
    ['#/servers', 'acme', '/servers'],
    [`#/applications/${id}`, 'acme', `/applications/${id}`],
    ['#/other/projects', 'other', '/projects'],
    ['#/other', 'other', '/'],
    ['#/other/invites/a-token_1', 'other', '/invites/a-token_1'],
  ])('%s is of the tenant %s and the path %s', (hash, tenant, path) => {
    expect(placeOf(hash, 'acme')).toMatchObject({ tenant, path });
  });

  it('has filters behind a question mark', () => {
    expect(placeOf('#/acme/projects?q=shop&status=failed', 'acme').query.get('status')).toBe('failed');
  });

  it('names its tenant, or none', () => {
    expect(tenantIn('#/acme/projects')).toBe('acme');
    expect(tenantIn('#/servers')).toBeUndefined();
    expect(tenantIn('')).toBeUndefined();
  });

  it('is made of parts as they are, however they are spelled', () => {
    const href = hrefOf('acme', ['projects', 'a b', 'x/y'], { q: 'ü&', status: '', at: undefined });
    expect(href).toBe('#/acme/projects/a%20b/x%2Fy?q=%C3%BC%26');
    const place = placeOf(href, 'none');
    expect(matched('projects/:one/:two', place.path.slice(1))).toEqual({ one: 'a b', two: 'x/y' });
    expect(place.query.get('q')).toBe('ü&');
  });

  it('with a broken escape is taken as it is', () => {
    expect(matched('projects/:id', 'projects/%E0%A4%A')).toEqual({ id: '%E0%A4%A' });
  });

  it.each([
    ['/', 'projects', {}],
    ['/projects', 'projects', {}],
    [`/projects/${id}`, 'projects/:projectId/:environment?', { projectId: id }],
    [`/projects/${id}/staging`, 'projects/:projectId/:environment?', { projectId: id, environment: 'staging' }],
    [`/projects/${id}/-/new`, 'projects/:projectId/-/new', { projectId: id }],
    [`/projects/${id}/-/settings`, 'projects/:projectId/-/settings', { projectId: id }],
    [
      `/projects/${id}/staging/applications/${id}/deployments`,
      'projects/:projectId/:environment/applications/:id/:tab?',
      { projectId: id, environment: 'staging', id, tab: 'deployments' },
    ],
    [
      `/projects/${id}/staging/applications/${id}/deployments/${id}`,
      'projects/:projectId/:environment/applications/:id/deployments/:deploymentId/:tab?',
      { projectId: id, environment: 'staging', id, deploymentId: id },
    ],
    [`/applications/${id}`, 'applications/:id/:tab?', { id }],
    ['/servers', 'servers', {}],
    ['/invites/a-token_1', 'invites/:token', { token: 'a-token_1' }],
  ])('%s is shown by the page %s', (path, pattern, params) => {
    const found = pageAt(pages, path);
    expect([found?.page.path, found?.params]).toEqual([pattern, params]);
  });

  it('that no page has is no page', () => {
    expect(pageAt(pages, '/nowhere')).toBeUndefined();
    expect(pageAt(pages, `/projects/${id}/a/b/c/d/e/f/g`)).toBeUndefined();
  });
});

it('every page of the console can be loaded', async () => {
  for (const page of pages) expect(await page.load(), page.path).toBeTypeOf('function');
});

describe('a page', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  /** A window whose address is `hash`; `go` is what a link does. */
  function windowAt(hash: string): { router: Router; go: (to: string) => string } {
    const target = new EventTarget();
    const location = { hash };
    vi.stubGlobal('location', location);
    vi.stubGlobal('addEventListener', target.addEventListener.bind(target));
    vi.stubGlobal('history', { replaceState: (_: unknown, __: string, to: string) => void (location.hash = to) });
    const router = new Router();
    return {
      router,
      go(to) {
        location.hash = to;
        target.dispatchEvent(new Event('hashchange'));
        return router.hash.value;
      },
    };
  }

  it('with several forms is left when each of those with changes agrees', () => {
    const { router, go } = windowAt('#/acme/servers');
    const asked: string[] = [];
    const guard = (name: string, agrees: boolean) => (): boolean => {
      asked.push(name);
      return agrees;
    };
    const drop = router.protect(guard('form', false));
    // a dialog over the form is opened and closed
    router.protect(guard('dialog', true))();
    expect(go('#/acme/logs')).toBe('#/acme/servers');
    drop();
    router.protect(guard('other', true));
    expect(go('#/acme/logs')).toBe('#/acme/logs');
    expect(asked).toEqual(['form', 'other']);
  });

  it('is left unasked for what its changes led to', () => {
    const { router, go } = windowAt('#/acme/servers');
    router.protect(() => false);
    router.leave('#/acme/logs');
    expect(go('#/acme/logs')).toBe('#/acme/logs');
    expect(go('#/acme/projects')).toBe('#/acme/logs');
  });
});
