import type { PageDescriptor } from '../page.ts';

export const membersDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/members',
  title: 'Members',
  place: 'projects',
  kinds: ['project', 'invite'],
  load: async () => (await import('./members-page.tsx')).MembersPage,
};
