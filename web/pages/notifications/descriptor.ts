import type { PageDescriptor } from '../page.ts';

export const notificationsDescriptor: PageDescriptor = {
  path: 'notifications',
  title: 'Notifications',
  place: 'none',
  kinds: [],
  load: async () => (await import('./notifications-page.tsx')).NotificationsPage,
};
