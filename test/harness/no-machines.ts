import type { Installation, ReachMachines } from '../../controllers/operation/run.ts';

/** For tests in which no machine is reached by SSH. */
export const noMachines: ReachMachines = {
  look: () => Promise.reject(new Error('No machine is looked at')),
  visit: () => Promise.reject(new Error('No machine is visited')),
};

/** For tests in which nothing is installed. */
export const noInstallation: Installation = {
  script: () => Promise.reject(new Error('Nothing is installed')),
  address: () => '',
  allowPlainHttp: false,
  joinToken: () => {
    throw new Error('No agent joins');
  },
};
