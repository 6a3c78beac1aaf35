import { maxReplicas } from '../../store/kinds/application.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';

/** The id of the instance that builds a deployment. */
export function buildInstanceOf(deploymentId: string): string {
  return assignmentId.task(deploymentId, 'build');
}

/** Every instance id that a deployment can have had: the instances themselves may be gone. */
export function serviceInstancesOf(deploymentId: string): string[] {
  return Array.from({ length: maxReplicas }, (_, slot) => assignmentId.slot(deploymentId, slot));
}
