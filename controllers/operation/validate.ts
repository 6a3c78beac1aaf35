import { SshFailure } from '../ssh/ssh-failure.ts';
import { reportOf, reportOfFailure } from '../ssh/report.ts';
import type { MachineReport } from '../ssh/report.ts';
import { connectMs } from '../ssh/machines.ts';
import { OperationFailure, type Run } from './run.ts';
import { wait } from '../../time/clock.ts';

/** Looks at the machine of a server by SSH and says whether it can be used. Changes nothing. */
export const validate: Run = async (it, { machines, ctx, signal }) => {
  const server = it.desired.server_id === undefined ? undefined : ctx.view.get('server', it.desired.server_id);
  if (server === undefined) throw new OperationFailure('not_found', 'Its server was deleted');
  const began = ctx.clock.monotonic();
  const pinned = server.desired.host_key;
  try {
    return { ...reportOf(await machines.look(server, ctx.view, signal), pinned) } satisfies MachineReport;
  } catch (error) {
    if (!(error instanceof SshFailure)) throw error;
    // How long the attempt took would tell a closed port from a silent one, and both from another service.
    if (error.code === 'unreachable')
      await wait(ctx.clock, Math.max(0, connectMs - (ctx.clock.monotonic() - began)), signal);
    return { ...reportOfFailure(error, pinned) } satisfies MachineReport;
  }
};
