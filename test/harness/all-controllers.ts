import { controllersOf } from '../../cli/controllers.ts';
import type { AnyController } from '../../controllers/runtime/graph.ts';

const undone = (): never => {
  throw new Error('Controllers are only described here');
};

/** The controllers of the program, for what they declare: none of them can run. */
export const allControllers: readonly AnyController[] = controllersOf({
  keyring: { transplant: undone, seal: undone, unseal: undone, isSame: undone },
  random: { bytes: undone },
  agents: { call: undone },
  machines: { look: undone, visit: undone },
  installation: { script: undone, address: undone, allowPlainHttp: false, joinToken: undone },
  applyCommit: undone,
  probeBucket: undone,
  bucket: {
    list: undone,
    begin: undone,
    complete: undone,
    abort: undone,
    sweep: undone,
    stat: undone,
    put: undone,
    remove: undone,
  },
  agentRelease: undone,
  mailer: { send: undone },
  isMailOnlyLogged: true,
  publicUrl: '',
  buildDeadlineMs: 0,
  rolloutDeadlineMs: 0,
  ownPorts: [],
});
