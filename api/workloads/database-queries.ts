import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { CommandResult, VolumeUsage } from '../../agent-protocol/messages.ts';
import type { Query } from '../../databases/engine.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import { conflicting } from '../ground/api-error.ts';
import { requireAgent } from './agent-capability.ts';

/** Time that the client of the engine has, and in which the agent answers. */
const queryMs = 10_000;
const answerMs = 15_000;

type Database = ReadonlyResource<'database'>;

/** Whether an instance of a database runs. */
export function isRunning(view: TenantView, it: Database): boolean {
  return runningOf(view, it) !== undefined;
}

function runningOf(view: TenantView, { meta }: Database): ReadonlyResource<'assignment'> | undefined {
  return view
    .by('assignment', 'workload', meta.id)
    .find(
      (it) =>
        it.desired.service === mainService &&
        it.desired.run === 'running' &&
        isStaying(it) &&
        it.observed?.phase === 'running',
    );
}

/** The instance of a database that runs. @throws ApiError CONFLICT if none does; `otherwise`: what to do then */
export function instanceOf(view: TenantView, it: Database, otherwise: string): string {
  const { desired } = it;
  const running = runningOf(view, it);
  if (running !== undefined) return running.meta.id;
  throw conflicting(
    desired.run === 'stopped'
      ? `The database is stopped: start it, then ${otherwise}`
      : `The database does not run at the moment: its condition Ready says why. Wait until it runs, then ${otherwise}`,
  );
}

/** What the engine of a database answers. @throws ApiError; CallError if the agent does not answer */
export async function askDatabase<Answer>(ctx: RequestContext, it: Database, query: Query<Answer>): Promise<Answer> {
  const { view, tenant, agents } = ctx;
  const { server_id: server } = it.desired;
  requireQueries(view, server);
  const assignment = instanceOf(view, it, 'ask again');
  const call = { method: 'instance.command' as const, assignment, command: [...query.command], timeout_ms: queryMs };
  const answer = await agents.call(tenant, server, call, { timeoutMs: answerMs, signal: ctx.signal() });
  const { exit_code: code, output } = answerOf(CommandResult, answer);
  if (code === undefined) throw new CallError('timeout', `The database did not answer within ${queryMs / 1000} s`);
  if (code !== 0) throw conflicting('The database does not answer queries at the moment: its log shows why');
  return query.read(output);
}

/** Bytes that the volume of a database takes on its server; null if it is not there. @throws as {@link askDatabase} */
export async function volumeBytes(ctx: RequestContext, { desired }: Database): Promise<number | null> {
  const { view, tenant, agents } = ctx;
  requireQueries(view, desired.server_id);
  const call = { method: 'volume.usage', volume: volumeName(desired.data_volume_id) } as const;
  const answer = await agents.call(tenant, desired.server_id, call, { timeoutMs: answerMs, signal: ctx.signal() });
  return answerOf(VolumeUsage, answer).bytes ?? null;
}

function requireQueries(view: TenantView, server: string): void {
  requireAgent(view.agent(server), 'instances.query', { lack: 'cannot ask databases' });
}
