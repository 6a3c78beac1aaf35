import type { LookAtMachine } from '../../controllers/operation/run.ts';

/** For tests in which no machine is reached by SSH. */
export const noMachines: LookAtMachine = {
  look: () => Promise.reject(new Error('No machine is looked at')),
};
