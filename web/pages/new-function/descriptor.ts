import type { PageDescriptor } from '../page.ts';

export const newFunctionDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/new-function',
  title: 'New function',
  place: 'projects',
  kinds: ['function', 'project', 'environment', 'server'],
  load: async () => (await import('./new-function-page.tsx')).NewFunctionPage,
};
