import type { PageDescriptor } from '../page.ts';

export const accountDescriptor: PageDescriptor = {
  path: 'account/:part?',
  title: 'Account',
  place: 'account',
  kinds: [],
  load: async () => (await import('./account-page.tsx')).AccountPage,
};
