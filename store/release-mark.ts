import { z } from 'zod';
import { keys } from './keys.ts';
import { thisRelease } from './release.ts';
import type { Guard, Store } from './store.ts';

const key = keys.meta('release');

/** What the latest release that led on this store writes into it. */
const Mark = z.object({
  /** Of the control plane, for display. */
  version: z.string(),
  /** See `Release`. */
  reads: z.record(z.string(), z.int()),
});
type Mark = z.infer<typeof Mark>;

/**
 * Refuses a store on which a later release has led, before anything is written: this one cannot read all that is in it,
 * and leaves behind on servers what belongs to an object that it deletes. A kind of the mark must stay known to later
 * releases, also once none of its objects are made any more.
 *
 * @throws Error with the kinds that cannot be read
 */
export async function refuseLater(store: Pick<Store, 'get'>): Promise<void> {
  const entry = await store.get(key);
  if (entry === undefined) return;
  const mark = parsed(entry.value);
  const unread = mark && Object.keys(mark.reads).filter((kind) => isLater(mark.reads, kind));
  if (unread?.length === 0) return;
  const [release, what] =
    mark === undefined ? ['', 'mark'] : [` (${mark.version})`, `records of ${unread?.join(', ')}`];
  throw new Error(
    `A later release${release} wrote this store, and this one cannot read its ${what}: start that release again, or restore a backup of the store from before it`,
  );
}

/** Writes into the store what this release reads, unless that is there already. @returns false if another was first. */
export async function markRelease(store: Store, version: string, fence: Guard): Promise<boolean> {
  const entry = await store.get(key);
  const known = entry === undefined ? undefined : parsed(entry.value);
  const { reads } = thisRelease;
  if (known !== undefined && Object.keys(reads).every((kind) => known.reads[kind] === reads[kind])) return true;
  const mark: Mark = { version, reads: { ...known?.reads, ...reads } };
  const guard: Guard = entry === undefined ? { key, is: 'absent' } : { key, is: 'at', revision: entry.modRevision };
  const { committed } = await store.txn({ if: [fence, guard], then: [{ put: key, value: JSON.stringify(mark) }] });
  return committed;
}

function isLater(reads: Mark['reads'], kind: string): boolean {
  return (reads[kind] ?? 0) > (thisRelease.reads[kind] ?? 0);
}

/** `undefined` for a mark that cannot be read. */
function parsed(text: string): Mark | undefined {
  try {
    return Mark.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
