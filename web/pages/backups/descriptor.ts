import type { PageDescriptor } from '../page.ts';

export const backupsDescriptor: PageDescriptor = {
  path: 'backups/:tab?',
  title: 'Backups',
  place: 'backups',
  kinds: ['backup', 'backup_schedule', 'restore', 'database', 'volume', 'project'],
  load: async () => (await import('./backups-page.tsx')).BackupsPage,
};
