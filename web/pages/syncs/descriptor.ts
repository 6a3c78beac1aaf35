import type { PageDescriptor } from '../page.ts';

export const syncsDescriptor: PageDescriptor = {
  path: 'syncs',
  title: 'Syncs',
  place: 'syncs',
  kinds: ['sync', 'project', 'server'],
  load: async () => (await import('./syncs-page.tsx')).SyncsPage,
};

export const newSyncDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/new-sync',
  title: 'New sync',
  place: 'syncs',
  kinds: ['sync', 'project', 'environment', 'server'],
  load: async () => (await import('./new-sync-page.tsx')).NewSyncPage,
};

export const syncDescriptor: PageDescriptor = {
  path: 'syncs/:id/:tab?',
  title: 'Sync',
  place: 'syncs',
  kinds: ['sync', 'project', 'environment', 'server', 'git_webhook'],
  load: async () => (await import('./sync-page.tsx')).SyncPage,
};
