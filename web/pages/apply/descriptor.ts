import type { PageDescriptor } from '../page.ts';

export const applyDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/apply',
  title: 'Apply',
  place: 'projects',
  kinds: ['project'],
  load: async () => (await import('./apply-page.tsx')).ApplyPage,
};
