import { uuidv5 } from '../store/uuid.ts';

const maxReplicas = 100;

/** The instance that builds a deployment. */
export function buildInstanceOf(deploymentId: string): string {
  return uuidv5(deploymentId, 'build');
}

/** Every instance that can have run a deployment: they are known without being there any more. */
export function serviceInstancesOf(deploymentId: string): string[] {
  return Array.from({ length: maxReplicas }, (_, slot) => uuidv5(deploymentId, `slot/${slot}`));
}
