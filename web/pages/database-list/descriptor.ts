import type { PageDescriptor } from '../page.ts';

export const databasesDescriptor: PageDescriptor = {
  path: 'databases',
  title: 'Databases',
  place: 'databases',
  kinds: ['database', 'project', 'server', 'environment'],
  load: async () => (await import('./databases-page.tsx')).DatabasesPage,
};
