import type { PageDescriptor } from '../page.ts';

export const settingsDescriptor: PageDescriptor = {
  path: 'settings/:part?',
  title: 'Settings',
  place: 'settings',
  kinds: ['registry', 'git_credential', 'ssh_key', 'backup_destination'],
  load: async () => (await import('./settings-page.tsx')).SettingsPage,
};
