import type { PageDescriptor } from '../page.ts';

export const welcomeDescriptor: PageDescriptor = {
  path: 'welcome',
  title: 'Set up',
  place: 'none',
  kinds: ['server', 'project', 'application', 'deployment'],
  load: async () => (await import('./welcome-page.tsx')).WelcomePage,
};
