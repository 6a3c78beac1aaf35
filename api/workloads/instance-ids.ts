import { uuidv5 } from '../../store/uuid.ts';

const maxReplicas = 100;

/** The id of the instance that builds a deployment. */
export function buildInstanceOf(deploymentId: string): string {
  return uuidv5(deploymentId, 'build');
}

/**
 * Every instance id that a deployment can have had. The ids are derived, so they are known after the instances are
 * gone.
 */
export function serviceInstancesOf(deploymentId: string): string[] {
  return Array.from({ length: maxReplicas }, (_, slot) => uuidv5(deploymentId, `slot/${slot}`));
}
