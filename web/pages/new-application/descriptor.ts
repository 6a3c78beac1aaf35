import type { PageDescriptor } from '../page.ts';

export const newApplicationDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/new',
  title: 'New application',
  place: 'projects',
  kinds: ['project', 'environment', 'server', 'application'],
  load: async () => (await import('./new-application-page.tsx')).NewApplicationPage,
};
