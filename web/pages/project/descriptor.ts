import type { PageDescriptor } from '../page.ts';

export const projectDescriptor: PageDescriptor = {
  path: 'projects/:projectId/:environment?',
  title: 'Project',
  place: 'projects',
  kinds: ['project', 'environment', 'application', 'database', 'function', 'volume', 'server'],
  load: async () => (await import('./project-page.tsx')).ProjectPage,
};

export const projectSettingsDescriptor: PageDescriptor = {
  path: 'projects/:projectId/-/settings',
  title: 'Settings of the project',
  place: 'projects',
  kinds: ['project', 'environment', 'server'],
  load: async () => (await import('./project-settings.tsx')).ProjectSettings,
};
