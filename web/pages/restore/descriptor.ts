import type { PageDescriptor } from '../page.ts';

export const restoreDescriptor: PageDescriptor = {
  path: 'restores/:id',
  title: 'Restore',
  place: 'backups',
  kinds: ['restore', 'backup', 'volume', 'database'],
  load: async () => (await import('./restore-page.tsx')).RestorePage,
};
