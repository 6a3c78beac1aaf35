import { describe, expect, it } from 'vitest';
import { entriesFor } from '../../../web/frame/palette-entries.ts';
import type { Known } from '../../../web/frame/palette-entries.ts';
import type { Application, ObjectOf, Project } from '../../../web/model.ts';

const application = (name: string, change: Partial<Application> = {}) =>
  ({
    id: name,
    name,
    project_id: 'p',
    environment_id: 'e',
    status: 'running',
    run: 'running',
    conditions: [],
    ...change,
  }) as Application;
const known: Known = {
  projects: [{ id: 'p', name: 'shop', display_name: null } as Project],
  environments: new Map(),
  applications: [application('api'), application('web'), application('old-api', { status: 'stopped', run: 'stopped' })],
  databases: [{ id: 'd', name: 'orders', project_id: 'p', environment_id: 'e' } as ObjectOf<'database'>],
  functions: [{ id: 'f', name: 'greeter', project_id: 'p', environment_id: 'e' } as ObjectOf<'function'>],
  templates: [{ id: 't', name: 'wordpress', display_name: 'WordPress' } as ObjectOf<'template'>],
  syncs: [{ id: 's', name: 'deploy-files', project_id: 'p' } as ObjectOf<'sync'>],
  servers: [],
  places: [{ word: 'Projects', path: 'projects' }],
  rankIn: () => 'member',
};
const texts = (typed: string, of: Known = known): string[] => entriesFor(typed, of).map(({ text }) => text);

describe('what the palette finds', () => {
  it('is places and projects before anything is typed', () => {
    expect(texts('')).toEqual(['Projects', 'shop']);
  });

  it('is an object by a part of its name, the exact one first', () => {
    expect(texts('api').slice(0, 2)).toEqual(['api', 'old-api']);
  });

  it('is a verb of an object', () => {
    expect(texts('deploy web')[0]).toBe('Deploy web');
    expect(texts('logs web')[0]).toBe('Logs of web');
  });

  it('is a database or a part of it, a template and a sync', () => {
    expect(texts('orders')[0]).toBe('orders');
    expect(texts('restore orders')[0]).toBe('Restore of orders');
    expect(texts('wordpress')).toEqual(['WordPress']);
    expect(entriesFor('sync shop', known)[0]).toMatchObject({ text: 'deploy-files', does: { go: ['syncs', 's'] } });
  });

  it('says why a verb cannot be done, by state and by role', () => {
    const restart = entriesFor('restart old-api', known)[0];
    expect(restart).toMatchObject({ text: 'Restart old-api', why: expect.stringContaining('stopped') });
    const asViewer = { ...known, rankIn: () => 'viewer' as const };
    expect(entriesFor('deploy web', asViewer)[0]?.why).toContain('you have the role viewer');
  });

  it('is nothing for what nothing is called', () => {
    expect(texts('zebra')).toEqual([]);
  });
});
