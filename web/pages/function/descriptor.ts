import type { PageDescriptor } from '../page.ts';

const load: PageDescriptor['load'] = async () => (await import('./function-page.tsx')).FunctionPage;
const kinds: PageDescriptor['kinds'] = ['function', 'project', 'environment', 'server'];

export const functionDescriptor: PageDescriptor = {
  path: 'projects/:projectId/:environment/functions/:id/:tab?',
  title: 'Function',
  place: 'functions',
  kinds,
  load,
};

/** The address of lists, which know the function alone. */
export const functionByIdDescriptor: PageDescriptor = {
  path: 'functions/:id/:tab?',
  title: 'Function',
  place: 'functions',
  kinds,
  load,
};
