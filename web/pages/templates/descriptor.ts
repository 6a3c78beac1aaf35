import type { PageDescriptor } from '../page.ts';

const load: PageDescriptor['load'] = async () => (await import('./templates-page.tsx')).TemplatesPage;

export const templatesDescriptor: PageDescriptor = {
  path: 'templates',
  title: 'Templates',
  place: 'templates',
  kinds: ['template'],
  load,
};

export const templateInstancesDescriptor: PageDescriptor = {
  path: 'instances',
  title: 'Instances of templates',
  place: 'templates',
  kinds: ['template_instance', 'project', 'environment'],
  load: async () => (await import('./instances-page.tsx')).TemplateInstancesPage,
};
