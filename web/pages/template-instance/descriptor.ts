import type { PageDescriptor } from '../page.ts';

export const templateInstanceDescriptor: PageDescriptor = {
  path: 'instances/:id',
  title: 'Instance of a template',
  place: 'templates',
  kinds: ['template_instance', 'project', 'environment', 'server'],
  load: async () => (await import('./template-instance-page.tsx')).TemplateInstancePage,
};
