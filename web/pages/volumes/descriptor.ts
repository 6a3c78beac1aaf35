import type { PageDescriptor } from '../page.ts';

export const volumesDescriptor: PageDescriptor = {
  path: 'volumes',
  title: 'Volumes',
  place: 'volumes',
  kinds: ['volume', 'application', 'project', 'server', 'environment', 'backup', 'restore'],
  load: async () => (await import('./volumes-page.tsx')).VolumesPage,
};
