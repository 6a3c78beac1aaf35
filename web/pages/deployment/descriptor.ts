import type { PageDescriptor } from '../page.ts';

const load: PageDescriptor['load'] = async () => (await import('./deployment-page.tsx')).DeploymentPage;
const kinds: PageDescriptor['kinds'] = ['deployment', 'application', 'project', 'environment'];

export const deploymentDescriptor: PageDescriptor = {
  path: 'projects/:projectId/:environment/applications/:id/deployments/:deploymentId/:tab?',
  title: 'Deployment',
  place: 'projects',
  kinds,
  load,
};

/** For links that know the deployment alone. */
export const deploymentByIdDescriptor: PageDescriptor = {
  path: 'deployments/:deploymentId/:tab?',
  title: 'Deployment',
  place: 'projects',
  kinds,
  load,
};
