import type { PageDescriptor } from '../page.ts';

export const serversDescriptor: PageDescriptor = {
  path: 'servers',
  title: 'Servers',
  place: 'servers',
  kinds: ['server', 'application'],
  load: async () => (await import('./servers-page.tsx')).ServersPage,
};

export const serverDescriptor: PageDescriptor = {
  path: 'servers/:id/:tab?',
  title: 'Server',
  place: 'servers',
  kinds: ['server', 'application', 'database', 'function', 'volume', 'project', 'ssh_key'],
  load: async () => (await import('./server-page.tsx')).ServerPage,
};
