import { SshFailure } from '../ssh/ssh-failure.ts';
import { reportOf, reportOfFailure } from '../ssh/report.ts';
import { otherServerOn, remedyFor } from '../ssh/remedy.ts';
import type { MachineReport } from '../ssh/report.ts';
import { OperationFailure, type Run } from './run.ts';

/** Looks at the machine of a server by SSH and says whether it can be used. Changes nothing. */
export const validate: Run = async (it, { machines, ctx, signal }) => {
  const server = it.desired.server_id === undefined ? undefined : ctx.view.get('server', it.desired.server_id);
  if (server === undefined) throw new OperationFailure('not_found', 'Its server was deleted');
  const pinned = server.desired.host_key;
  const named = ({ checks, ...report }: MachineReport): { [K in keyof MachineReport]: MachineReport[K] } => ({
    ...report,
    checks: checks.map(({ remediation, ...it }) => ({
      ...it,
      remediation: remediation === null ? null : remedyFor(remediation, server, ctx.view),
    })),
  });
  try {
    const look = await machines.look(server, ctx.view, signal);
    return named(reportOf(look, pinned, otherServerOn(look.facts, server, ctx.view)));
  } catch (error) {
    if (!(error instanceof SshFailure)) throw error;
    return named(reportOfFailure(error, pinned));
  }
};
