import type { PageDescriptor } from '../page.ts';

export const templateDescriptor: PageDescriptor = {
  path: 'templates/:id/:tab?',
  title: 'Template',
  place: 'templates',
  kinds: ['template', 'template_instance', 'project', 'environment', 'server'],
  load: async () => (await import('./template-page.tsx')).TemplatePage,
};
