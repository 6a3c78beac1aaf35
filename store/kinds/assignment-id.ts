import { mainService } from '../../agent-protocol/workload.ts';
import { uuidv5 } from '../uuid.ts';

/**
 * Ids of assignments follow from what they belong to: a repeated creation finds the first one, and the ids are known
 * after the assignments are gone.
 */
export const assignmentId = {
  /** The instance in a slot of a version. `service`: which of the workload's services it is of. */
  slot(version: string, slot: number, service: string = mainService): string {
    return uuidv5(version, service === mainService ? `slot/${slot}` : `slot/${service}/${slot}`);
  },

  /** The task that an object has in that role, such as the build of a deployment. */
  task(owner: string, role: string): string {
    return uuidv5(owner, role);
  },
};
