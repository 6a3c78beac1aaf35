import type { PageDescriptor } from '../page.ts';

export const activityDescriptor: PageDescriptor = {
  path: 'activity',
  title: 'Activity',
  place: 'activity',
  kinds: ['project'],
  load: async () => (await import('./activity-page.tsx')).ActivityPage,
};
