import type { PageDescriptor } from '../page.ts';

export const inviteDescriptor: PageDescriptor = {
  path: 'invites/:token',
  title: 'Invite',
  place: 'none',
  kinds: ['invite', 'project'],
  load: async () => (await import('./invite-page.tsx')).InvitePage,
};
