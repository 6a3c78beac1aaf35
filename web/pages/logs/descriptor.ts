import type { PageDescriptor } from '../page.ts';

export const logsDescriptor: PageDescriptor = {
  path: 'logs',
  title: 'Logs',
  place: 'logs',
  kinds: ['project', 'environment', 'application'],
  load: async () => (await import('./logs-page.tsx')).LogsPage,
};
