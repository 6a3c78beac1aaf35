import { z } from 'zod';
import { parseChained, seqOfKey } from '../../store/audit/chain.ts';
import { AuditRecord } from '../../store/audit/record.ts';
import { keys } from '../../store/keys.ts';
import type { Revision } from '../../store/revision.ts';
import type { Entry, Store } from '../../store/store.ts';
import { badField, serviceUnavailable } from '../ground/api-error.ts';

/** Filters of a query of the audit log. */
export interface LogFilter {
  projectId?: string | undefined;
  /** Id or e-mail address. */
  user?: string | undefined;
  key?: string | undefined;
  route?: string | undefined;
  result?: AuditRecord['result'] | undefined;
  /** Kind of one of the record's objects. */
  kind?: string | undefined;
  /** Id of one of the record's objects, or of their project. */
  id?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
}

/** A record of the log, chained or not yet. */
export interface LoggedRecord {
  /** Revision of the transaction that wrote it; a transaction writes at most one record. */
  revision: Revision;
  /** Its place in the chain; absent until it is chained. */
  link?: { seq: number; hash: string };
  record: AuditRecord;
}

const limits = {
  page: 500,
  /** Most chained records that one request reads. */
  scanned: 2000,
  /** Most pages of records that wait to be chained; there are few of them while a leader runs. */
  pendingPages: 40,
  /** Most skew between the replicas' clocks: records are in the order of their commits, not of their times. */
  clockSkewMs: 3_600_000,
} as const;

/** Where a page ended: before the commit of a record that was not chained (`p`), or at a number of the chain (`c`). */
const Cursor = z.union([z.tuple([z.literal('p'), z.int()]), z.tuple([z.literal('c'), z.int()])]);
type Cursor = z.infer<typeof Cursor>;

type Reading = Pick<Store, 'list'>;

/**
 * Reads one page of a tenant's log, newest first. A record first waits to be chained and then moves into the chain:
 * both places are read at one revision, so that no record is missed or returned twice. A page that read many records
 * and found few matches ends early, with a cursor.
 *
 * @throws ApiError BAD_REQUEST for an invalid cursor; 503 if too many records wait to be chained
 */
export async function readLog(
  store: Reading,
  tenant: string,
  filter: LogFilter,
  { limit, cursor: text }: { limit: number; cursor?: string | undefined },
): Promise<{ records: LoggedRecord[]; next: string | null }> {
  const cursor = text === undefined ? undefined : parseCursor(text);
  const matches = matcher(filter);
  const waiting =
    cursor?.[0] === 'c'
      ? { records: [], at: undefined }
      : await readPending(store, tenant, matches, limit, cursor?.[1]);
  const records = waiting.records.slice(0, limit);
  const last = records.at(-1);
  if (last !== undefined && waiting.records.length > limit) return { records, next: encode(['p', last.revision]) };
  const { next } = await readChain(store, tenant, { filter, matches, limit, cursor, at: waiting.at }, records);
  return { records, next };
}

/** Returns up to `limit + 1` of the newest matching records. */
async function readPending(
  store: Reading,
  tenant: string,
  matches: (record: AuditRecord) => boolean,
  limit: number,
  before: number | undefined,
): Promise<{ records: LoggedRecord[]; at: Revision }> {
  let found: LoggedRecord[] = [];
  let page = await store.list(keys.allAuditPending(tenant), { limit: limits.page });
  const at = page.revision;
  for (let pages = 1; ; pages += 1) {
    for (const { value, modRevision } of page.entries) {
      if (before !== undefined && modRevision >= before) continue;
      const record = parseRecord(value);
      if (matches(record)) found.push({ revision: modRevision, record });
    }
    found = found.toSorted((a, b) => b.revision - a.revision).slice(0, limit + 1);
    if (page.next === undefined) return { records: found, at };
    if (pages === limits.pendingPages)
      throw serviceUnavailable(
        'Too many audit records wait to be chained: check that a control plane leads (setpoint_leader is 1)',
      );
    page = await store.list(keys.allAuditPending(tenant), { limit: limits.page, after: page.next, at });
  }
}

interface ChainReading {
  filter: LogFilter;
  matches: (record: AuditRecord) => boolean;
  limit: number;
  cursor: Cursor | undefined;
  at: Revision | undefined;
}

/** Adds matching records to `records` until there are `limit`. */
async function readChain(
  store: Reading,
  tenant: string,
  { filter, matches, limit, cursor, at }: ChainReading,
  records: LoggedRecord[],
): Promise<{ next: string | null }> {
  const oldest = filter.since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(filter.since) - limits.clockSkewMs;
  let after = cursor?.[0] === 'c' ? keys.auditChained(tenant, cursor[1]) : undefined;
  // cursor of the next page, set once the page is full
  let end: string | null = null;
  for (let scanned = 0; ;) {
    const page = await store.list(keys.allAuditChained(tenant), {
      limit: limits.page,
      ...(after !== undefined && { after }),
      ...(at !== undefined && { at }),
    });
    for (const entry of page.entries) {
      const logged = parseLogged(entry);
      if (cursor?.[0] === 'p' && logged.revision >= cursor[1]) continue;
      if (Date.parse(logged.record.at) < oldest) return { next: null };
      if (!matches(logged.record)) continue;
      if (end !== null) return { next: end };
      if (records.length === limit) return { next: encode(['p', (records.at(-1) ?? logged).revision]) };
      records.push(logged);
      if (records.length === limit) end = encode(['c', seqOfKey(entry.key)]);
    }
    if (page.next === undefined) return { next: null };
    scanned += page.entries.length;
    after = page.next;
    if (scanned >= limits.scanned) return { next: end ?? encode(['c', seqOfKey(page.next)]) };
  }
}

function parseLogged({ key, value, modRevision }: Entry): LoggedRecord {
  const chained = parseChained(value);
  if (chained === undefined) return { revision: modRevision, record: unreadable };
  const { seq, hash, revision } = chained;
  const record = AuditRecord.safeParse(chained.record).data ?? unreadable;
  // revision and number come from the chained record, not from the transaction that chained it
  return {
    revision: revision as Revision,
    link: { seq: Number.isNaN(seqOfKey(key)) ? seq : seqOfKey(key), hash },
    record,
  };
}

/** Stands for a record that was put into the log by hand. The verifier reports where. */
const unreadable: AuditRecord = {
  v: 1,
  at: '9999-12-31T23:59:59.999Z',
  route: 'unreadable',
  result: 'failed',
  tenant: '',
  objects: [],
};

function parseRecord(text: string): AuditRecord {
  try {
    return AuditRecord.safeParse(JSON.parse(text)).data ?? unreadable;
  } catch {
    return unreadable;
  }
}

function matcher(filter: LogFilter): (record: AuditRecord) => boolean {
  const { projectId, user, key, route, result, kind, id } = filter;
  const since = filter.since === undefined ? undefined : Date.parse(filter.since);
  const until = filter.until === undefined ? undefined : Date.parse(filter.until);
  return (it) =>
    (projectId === undefined || it.project_id === projectId) &&
    (user === undefined || it.user?.id === user || it.user?.email.toLowerCase() === user.toLowerCase()) &&
    (key === undefined || it.key_id === key) &&
    (route === undefined || it.route === route) &&
    (result === undefined || it.result === result) &&
    (since === undefined || Date.parse(it.at) >= since) &&
    (until === undefined || Date.parse(it.at) < until) &&
    (kind === undefined && id === undefined ? true : concerns(it, kind, id));
}

function concerns({ objects, project_id }: AuditRecord, kind: string | undefined, id: string | undefined): boolean {
  if (kind === undefined && project_id === id) return true;
  return objects.some((it) => (kind === undefined || it.kind === kind) && (id === undefined || it.id === id));
}

function encode(cursor: Cursor): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

function parseCursor(text: string): Cursor {
  try {
    const cursor = Cursor.safeParse(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
    if (cursor.success) return cursor.data;
  } catch {
    // handled below
  }
  throw badField('cursor', 'invalid', 'Cursor is not one of this list, or expired: read the list from its beginning');
}
