import type { PageDescriptor } from '../page.ts';

export const functionsDescriptor: PageDescriptor = {
  path: 'functions',
  title: 'Functions',
  place: 'functions',
  kinds: ['function', 'project', 'server'],
  load: async () => (await import('./functions-page.tsx')).FunctionsPage,
};
