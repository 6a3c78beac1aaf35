import { z } from 'zod';
import { firstRelease } from './first-release.ts';
import { keys } from './keys.ts';
import { kinds } from './kinds/kinds.ts';
import type { Mirror } from './mirror.ts';
import { gapOf, thisRelease } from './release.ts';
import type { Gap } from './release.ts';

/** A replica of the control plane as the others see it. */
export interface Replica {
  id: string;
  /** Address where the other replicas reach it, `http:` or `https:`. */
  url: string;
  version: string;
}

/** The leadership of the controllers, in the directory of leaders. */
export const controllersLead = 'controllers';

const Announcement = z.object({
  url: z.string(),
  version: z.string(),
  /** See `Release`; absent: it is of a release that did not announce that. */
  reads: z.record(z.string(), z.int()).optional(),
  fields: z.record(z.string(), z.array(z.string())).optional(),
});
type Announcement = z.infer<typeof Announcement>;

const Leader = z.object({ replica: z.string() });

/** The version of the records that this release writes, by kind. */
const written = Object.values(kinds).map(({ kind, version }) => ({ kind, version }));

/** What a replica of this release writes into its key of the directory. */
export function announcementOf({ url, version }: Replica): string {
  const { reads, fields } = thisRelease;
  return JSON.stringify({ url, version, reads, fields } satisfies Record<keyof Announcement, unknown>);
}

/** The address of another replica; `undefined`: it is not in the directory. */
export function replicaUrl(mirror: Pick<Mirror, 'key'>, id: string): string | undefined {
  const entry = mirror.key(keys.replica(id));
  return entry && parsed(Announcement, entry.value)?.url;
}

/** The versions and addresses of the replicas in the directory, and the id of the one that leads the controllers. */
export function directoryOf(mirror: Pick<Mirror, 'key' | 'keysUnder'>): {
  replicas: { id: string; version: string; url?: string }[];
  leader: string | undefined;
} {
  const leads = mirror.key(keys.leader(controllersLead));
  const prefix = keys.replica('');
  return {
    replicas: mirror.keysUnder(prefix).map(({ key, value }) => {
      const { version = 'unknown', url } = parsed(Announcement, value) ?? {};
      return { id: key.slice(prefix.length), version, ...(url !== undefined && { url }) };
    }),
    leader: leads && parsed(Leader, leads.value)?.replica,
  };
}

/**
 * URL of a replica in the directory that cannot read all that this release writes; `undefined`: there is none. One that
 * announced nothing about its records is of a release before they were announced.
 */
export function earlierReplica(mirror: Pick<Mirror, 'keysUnder'>): string | undefined {
  return mirror
    .keysUnder(keys.replica(''))
    .map(({ value }) => parsed(Announcement, value))
    .find((it) => it && written.some(({ kind, version }) => (it.reads?.[kind] ?? 0) < version))?.url;
}

/** A leader of another release, and what it does not know. */
export interface OtherLeader {
  /** Its URL; absent: it is not in the directory, or its announcement cannot be read. */
  url?: string;
  gap: Gap;
}

/** What a leader does not know whose announcement is not there, or cannot be read. */
const unknownGap = gapOf(firstRelease);

/**
 * What the leader of the controllers does not know. Returns `undefined` if it knows all that this release does: the
 * usual case, which costs two look-ups in memory. A leader that announces nothing readable counts as one of the first
 * release. While no replica leads, one that is announced and knows less counts, as newer ones leave the lead to it.
 *
 * @param self id of this replica
 */
export function otherLeader(mirror: Pick<Mirror, 'key' | 'keysUnder'>, self: string): OtherLeader | undefined {
  const taken = mirror.key(keys.leader(controllersLead));
  if (taken === undefined)
    return mirror
      .keysUnder(keys.replica(''))
      .map(otherIn)
      .find((it) => it?.url !== undefined);
  const leader = leaderIn(taken);
  if (leader === self) return undefined;
  const announced = leader === undefined ? undefined : mirror.key(keys.replica(leader));
  return announced === undefined ? unknownGap && { gap: unknownGap } : otherIn(announced);
}

/** The replica that a record of the leadership names. */
const leaderIn = readOnce((value) => parsed(Leader, value)?.replica);

/** What a replica does not know, by its announcement. */
const otherIn = readOnce((value): OtherLeader | undefined => {
  const it = parsed(Announcement, value);
  const { reads = firstRelease.reads, fields = firstRelease.fields } = it ?? {};
  const gap = gapOf({ reads, fields });
  return gap && { gap, ...(it !== undefined && { url: it.url }) };
});

/** Reads each record of the mirror once, as every write asks for it. A key that changes gets another record. */
function readOnce<T>(read: (value: string) => T): (record: { readonly value: string }) => T {
  const known = new WeakMap<object, { read: T }>();
  return (record) => {
    const before = known.get(record);
    if (before !== undefined) return before.read;
    const found = read(record.value);
    known.set(record, { read: found });
    return found;
  };
}

/** `undefined`: it is no record that this release understands. */
function parsed<S extends z.ZodType>(schema: S, record: string): z.output<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(record)).data;
  } catch {
    return undefined;
  }
}
