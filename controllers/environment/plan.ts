import { copiedFrom, copiesIn, copyIdOf } from '../../store/copying.ts';
import { definitionOf } from '../../store/definition.ts';
import type { DesiredOf, KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { markersOf } from '../../store/population.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { serverOf } from '../../store/server-of.ts';
import { limits } from '../runtime/limits.ts';

type Environment = ReadonlyResource<'environment'>;

/** The step that brings a clone nearer to its source. */
export type Action =
  /** The clone can never be complete. */
  | { do: 'abandon'; reason: string; message: string }
  /** Copies whose source was deleted or changed since: they are made anew when they are gone. */
  | { do: 'remove'; copies: readonly ReadonlyResource[] }
  | { do: 'await'; copies: readonly ReadonlyResource[] }
  /** Copies as many as fit into one transaction. `servers` must exist when it commits. */
  | { do: 'copy'; sources: readonly ReadonlyResource[]; servers: readonly ReadonlyResource<'server'>[] }
  /** Every copy equals its source as of the revision that was read. */
  | { do: 'complete' };

export interface ClonePlan {
  action: Action;
  copied: number;
  total: number;
}

/** The environment that a clone copies; `undefined` if it is gone or being deleted. */
export function sourceOf({ desired }: Environment, view: TenantView): Environment | undefined {
  const source = view.get('environment', desired.clone_of?.environment_id ?? '');
  return isStaying(source) ? source : undefined;
}

/** The id in a clone for each id of its source. */
export function replacements(clone: Environment, sources: readonly ReadonlyResource[]): ReadonlyMap<string, string> {
  const { clone_of } = clone.desired;
  return new Map([
    ...Object.entries(clone_of?.server_map ?? {}),
    ...sources.map(({ meta }) => [meta.id, copyIdOf(clone.meta.id, meta.id)] as const),
    [clone_of?.environment_id ?? '', clone.meta.id],
  ]);
}

/**
 * The next step of a clone. Pure, and of one revision of the view: a complete clone equals the source at that revision.
 * A copy is never changed but deleted and made anew, so that names can move between sources meanwhile.
 */
export function planClone(clone: Environment, view: TenantView): ClonePlan {
  const source = sourceOf(clone, view);
  const sources = source === undefined ? [] : copiedFrom(view, source.meta.id).filter(isStaying);
  const revisions = new Map(sources.map(({ meta }) => [meta.id, meta.desiredRevision]));
  const copies = copiesIn(view, clone.meta.id);
  const [good, stale] = split(copies, ({ meta }) => isStaying({ meta }) && isCopyOf(meta, revisions));
  const known = new Set(good.map(({ meta }) => meta.copyOf?.id));
  const missing = sources.filter(({ meta }) => !known.has(meta.id));
  return { action: actionOf(clone, view, { source, stale, missing }), copied: good.length, total: sources.length };
}

interface Difference {
  source: Environment | undefined;
  stale: readonly ReadonlyResource[];
  missing: readonly ReadonlyResource[];
}

function actionOf(clone: Environment, view: TenantView, { source, stale, missing }: Difference): Action {
  if (source === undefined)
    return {
      do: 'abandon',
      reason: 'SourceDeleted',
      message: `Environment ${clone.desired.name} is removed, as its source was deleted before it was copied whole: clone another one`,
    };
  const toRemove = stale.filter(isStaying);
  if (toRemove.length > 0) return { do: 'remove', copies: toRemove.slice(0, limits.clone.removals) };
  if (stale.length > 0) return { do: 'await', copies: stale };
  return missing.length === 0 ? { do: 'complete' } : copyAction(clone, view, missing);
}

function copyAction(clone: Environment, view: TenantView, missing: readonly ReadonlyResource[]): Action {
  const map = clone.desired.clone_of?.server_map ?? {};
  const servers = new Map<string, ReadonlyResource<'server'>>();
  const sources: ReadonlyResource[] = [];
  /** Of what the copies belong to. Those of a copy are of other objects, and no more. */
  const markers = new Set<string>();
  let bytes = 0;
  let ofRecords = 0;
  for (const source of missing) {
    const id = serverOf(source);
    const server = id === undefined ? undefined : view.get('server', map[id] ?? id);
    if (id !== undefined && (server === undefined || !isStaying(server)))
      return {
        do: 'abandon',
        reason: 'ServerDeleted',
        message: `Environment ${clone.desired.name} is removed, as the server of ${describe(source)} was deleted before it was copied: clone again with server_map`,
      };
    bytes += Buffer.byteLength(JSON.stringify([source.desired, source.meta.labels]));
    ofRecords += operationsOf(source);
    for (const marker of markersOf(source)) markers.add(marker);
    const operations = ofRecords + markers.size + new Set([...servers.keys(), server?.meta.id]).size;
    if (sources.length > 0 && (bytes > limits.clone.bytes || operations > limits.clone.operations)) break;
    if (server !== undefined) servers.set(server.meta.id, server);
    sources.push(source);
  }
  return { do: 'copy', sources, servers: [...servers.values()] };
}

/** The guards and writes that a copy takes by itself: two for its record, two per name. */
function operationsOf({ meta, desired }: ReadonlyResource): number {
  const names = definitionOf(meta.kind).unique?.(desired as DesiredOf<KindName>) ?? []; // only read
  return 2 + 2 * names.length;
}

/** A kind and a name, for people. */
export function describe({ meta, desired }: ReadonlyResource): string {
  return 'name' in desired ? `${meta.kind} ${desired.name}` : meta.kind;
}

function isCopyOf({ copyOf }: ReadonlyResource['meta'], revisions: ReadonlyMap<string, number>): boolean {
  return copyOf !== undefined && revisions.get(copyOf.id) === copyOf.revision;
}

function split<T>(all: readonly T[], is: (one: T) => boolean): [T[], T[]] {
  return [all.filter(is), all.filter((one) => !is(one))];
}
