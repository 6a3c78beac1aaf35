import type { PageDescriptor } from '../page.ts';

export const templateInstanceDescriptor: PageDescriptor = {
  path: 'instances/:id/:tab?',
  title: 'Instance of a template',
  place: 'templates',
  kinds: ['template_instance', 'template', 'project', 'environment', 'server'],
  load: async () => (await import('./template-instance-page.tsx')).TemplateInstancePage,
};
