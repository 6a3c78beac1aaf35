import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';
import { mountingWorkloads } from '../resources/volume.ts';
import type { MountingWorkload } from '../resources/volume.ts';
import { requireAgent } from './agent-capability.ts';
import { requireOwnVolume } from './backing-up.ts';
import { holdPopulation, inWords } from './population.ts';

type Mounted = DesiredOf<'application'>['mounts'];

/** Folders of every instance of a function: its own one, and the one in memory. */
const ofFunctions = ['/function', '/tmp'];

/** @throws ApiError CONFLICT if something else is in the workload there, below it, or above it. */
function requireFreePath({ meta: { kind }, desired }: MountingWorkload, path: string): void {
  const meets = (other: string): boolean => `${other}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${other}/`);
  const other = desired.mounts.find((mount) => meets(mount.path));
  if (other !== undefined)
    throw conflicting(
      `The ${kind} mounts another volume at ${other.path}: unbind that one first, or choose another path`,
    );
  const own = kind === 'function' ? ofFunctions.find(meets) : undefined;
  if (own !== undefined) throw conflicting(`Every function has a folder ${own} of its own: choose another path`);
}

/** Requires that a workload may mount a volume, and guards that nothing else does by then. @throws ApiError CONFLICT */
export async function requireMountable(
  ctx: Pick<RequestContext, 'view' | 'fresh'>,
  unit: Unit,
  volume: ReadonlyResource<'volume'>,
  workload: MountingWorkload,
  { path, readOnly }: { path: string; readOnly: boolean },
): Promise<void> {
  const { view } = ctx;
  requireOwnVolume(view, volume);
  if (isKind(workload, 'function') && workload.desired.environment_id !== volume.desired.environment_id)
    throw conflicting('The volume is in another environment than the function: bind one of its own environment');
  if (workload.desired.server_id !== volume.desired.server_id)
    throw conflicting(`The volume is on another server than the ${workload.meta.kind}: bind a volume of that server`);
  if (isKind(workload, 'application') && workload.desired.source.type === 'compose')
    throw conflicting('The services of a compose file mount the volumes that it declares: write the volume there');
  const isNew = volume.meta.desiredRevision === 0;
  if (!isNew) await holdPopulation(ctx, unit, volume);
  const users = mountingWorkloads(view, volume.meta.id);
  if (users.length > 0) throw conflicting(`The volume is mounted already (${inWords(users)}): unbind it first`);
  requireFreePath(workload, path);
  if (!readOnly && isKind(workload, 'application') && workload.desired.replicas > 1)
    throw conflicting(
      'The application has several instances, and one may write to a volume: scale it to 1, or bind read_only',
    );
  if (isKind(workload, 'function')) requireSharing(view, workload);
  if (isKind(workload, 'function') && volume.desired.copy_from !== undefined && volume.observed?.copied !== true)
    throw conflicting('The volume is being copied: bind it to the function once it is available');
  unit.require(volume);
}

/** @throws ApiError CONFLICT if the agent of the server is connected and too old; one that is away may be of this release. */
function requireSharing(view: TenantView, { desired }: ReadonlyResource<'function'>): void {
  const agent = view.agent(desired.server_id);
  if (agent !== undefined) requireAgent(agent, 'functions.volumes', { lack: 'mounts no volumes in functions' });
}

/** What is mounted or declared is needed, also the former data of a restore: it has no end any more. */
export function keepVolume(unit: Unit, volume: ReadonlyResource<'volume'>): ReadonlyResource<'volume'> {
  return volume.desired.expires_at === undefined
    ? volume
    : unit.change(volume, (draft) => void delete draft.expires_at);
}

/** Changes what a workload mounts. */
export function changeMounts(unit: Unit, workload: MountingWorkload, change: (mounts: Mounted) => Mounted) {
  return isKind(workload, 'function')
    ? unit.change(workload, (draft) => void (draft.mounts = change(draft.mounts)))
    : unit.change(workload, (draft) => void (draft.mounts = change(draft.mounts)));
}
