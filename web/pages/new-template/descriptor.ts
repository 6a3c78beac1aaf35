import type { PageDescriptor } from '../page.ts';

export const newTemplateDescriptor: PageDescriptor = {
  path: 'templates/-/new',
  title: 'New template',
  place: 'templates',
  kinds: ['template'],
  load: async () => (await import('./new-template-page.tsx')).NewTemplatePage,
};
