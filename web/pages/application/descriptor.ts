import type { PageDescriptor } from '../page.ts';

const load: PageDescriptor['load'] = async () => (await import('./application-page.tsx')).ApplicationPage;
const kinds: PageDescriptor['kinds'] = ['application', 'deployment', 'project', 'environment', 'server', 'volume'];

export const applicationDescriptor: PageDescriptor = {
  path: 'projects/:projectId/:environment/applications/:id/:tab?',
  title: 'Application',
  place: 'projects',
  kinds,
  load,
};

/** The address of earlier releases, and of links that know the application alone. */
export const applicationByIdDescriptor: PageDescriptor = {
  path: 'applications/:id/:tab?',
  title: 'Application',
  place: 'projects',
  kinds,
  load,
};
