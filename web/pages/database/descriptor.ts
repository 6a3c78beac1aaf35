import type { PageDescriptor } from '../page.ts';

const load: PageDescriptor['load'] = async () => (await import('./database-page.tsx')).DatabasePage;
const kinds: PageDescriptor['kinds'] = [
  'database',
  'backup',
  'backup_schedule',
  'restore',
  'project',
  'environment',
  'server',
  'volume',
];

export const databaseDescriptor: PageDescriptor = {
  path: 'projects/:projectId/:environment/databases/:id/:tab?',
  title: 'Database',
  place: 'databases',
  kinds,
  load,
};

/** The address of lists, which know the database alone. */
export const databaseByIdDescriptor: PageDescriptor = {
  path: 'databases/:id/:tab?',
  title: 'Database',
  place: 'databases',
  kinds,
  load,
};
