import type { PageDescriptor } from '../page.ts';

export const projectsDescriptor: PageDescriptor = {
  path: 'projects',
  title: 'Projects',
  place: 'projects',
  kinds: ['project', 'application', 'database', 'volume', 'invite'],
  load: async () => (await import('./projects-page.tsx')).ProjectsPage,
};
