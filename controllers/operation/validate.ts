import { SshFailure } from '../ssh/ssh-failure.ts';
import { reportOf, reportOfFailure } from '../ssh/report.ts';
import type { MachineReport } from '../ssh/report.ts';
import { OperationFailure, type Run } from './run.ts';

/** Looks at the machine of a server by SSH and says whether it can be used. Changes nothing. */
export const validate: Run = async (it, { machines, ctx, signal }) => {
  const server = it.desired.server_id === undefined ? undefined : ctx.view.get('server', it.desired.server_id);
  if (server === undefined) throw new OperationFailure('not_found', 'Its server was deleted');
  const pinned = server.desired.host_key;
  try {
    return { ...reportOf(await machines.look(server, ctx.view, signal), pinned) } satisfies MachineReport;
  } catch (error) {
    if (!(error instanceof SshFailure)) throw error;
    return { ...reportOfFailure(error, pinned) } satisfies MachineReport;
  }
};
