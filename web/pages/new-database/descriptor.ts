import type { PageDescriptor } from '../page.ts';

export const newDatabaseDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/new-database',
  title: 'New database',
  place: 'projects',
  kinds: ['database', 'project', 'environment', 'server'],
  load: async () => (await import('./new-database-page.tsx')).NewDatabasePage,
};
