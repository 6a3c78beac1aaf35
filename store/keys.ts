import { foldName } from './fold-name.ts';
import type { KeyRange } from './store.ts';

/** Prefix of all keys. Nothing outside of this file writes a key by hand. */
const root = '/setpoint/1/';

/** What a key of the layout means. */
export type KeyMeaning =
  | { area: 'desired' | 'observed' | 'events' | 'population' | 'bytes'; tenant: string; kind: string; id: string }
  | { area: 'unique'; tenant: string; kind: string; scope: string; name: string }
  | { area: 'agent' | 'removals' | 'connections'; tenant: string; server: string }
  | { area: 'idempotency' | 'ticket' | 'terminal'; tenant: string; hash: string }
  | { area: 'audit'; tenant: string; part: 'pending' | 'chained' | 'head' }
  | { area: 'tenant'; tenant: string }
  | { area: 'replica'; id: string }
  | { area: 'leader'; name: string }
  | { area: 'meta'; name: string };

export const keys = {
  /** The mirror watches this. */
  all: { prefix: root } satisfies KeyRange,
  desired: (tenant: string, kind: string, id: string): string => `${root}t/${tenant}/d/${kind}/${id}`,
  observed: (tenant: string, kind: string, id: string): string => `${root}t/${tenant}/o/${kind}/${id}`,
  /** Capped ring of events of one object. */
  events: (tenant: string, kind: string, id: string): string => `${root}t/${tenant}/e/${kind}/${id}`,
  /** Marker of an object that others belong to; written whenever one enters, so that its revision shows it. */
  population: (tenant: string, kind: string, id: string): string => `${root}t/${tenant}/m/${kind}/${id}`,
  /** Bytes that belong to an object and that no list shows; the mirror does not hold them. */
  bytes: (tenant: string, kind: string, id: string): string => `${root}t/${tenant}/b/${kind}/${id}`,
  unique: (tenant: string, kind: string, scope: string, name: string): string =>
    `${root}t/${tenant}/u/${kind}/${encodeURIComponent(scope)}/${encodeURIComponent(foldName(name))}`,
  /** Leased by the replica that holds the agent's session. */
  agent: (tenant: string, server: string): string => `${root}t/${tenant}/live/agent/${server}`,
  /** Record of what the agent of a server keeps although the store does not know it. */
  removals: (tenant: string, server: string): string => `${root}t/${tenant}/live/removals/${server}`,
  /** How often the agent of a server connected, and why its last connection was lost. */
  connections: (tenant: string, server: string): string => `${root}t/${tenant}/live/connections/${server}`,
  /** Leased 24 h. */
  idempotency: (tenant: string, hash: string): string => `${root}t/${tenant}/idem/${hash}`,
  /** An unused ticket for a stream. */
  ticket: (tenant: string, hash: string): string => `${root}t/${tenant}/ticket/${hash}`,
  /** A terminal that waits for its user, or is open: then leased by the replica that has it. */
  terminal: (tenant: string, hash: string): string => `${root}t/${tenant}/terminal/${hash}`,
  /** Audit records that are not chained yet. `id` begins with a time, so that they are roughly in order of time. */
  auditPending: (tenant: string, id: string): string => `${root}t/${tenant}/a/p/${id}`,
  /** Chained audit records, the newest first. */
  auditChained: (tenant: string, seq: number): string => `${root}t/${tenant}/a/c/${inverted(seq)}`,
  allAuditChained: (tenant: string): KeyRange => ({ prefix: `${root}t/${tenant}/a/c/` }),
  allAuditPending: (tenant: string): KeyRange => ({ prefix: `${root}t/${tenant}/a/p/` }),
  /** Where the chain of audit records begins and ends. */
  auditHead: (tenant: string): string => `${root}t/${tenant}/a/head`,
  tenant: (tenant: string): string => `${root}c/tenant/${tenant}`,
  replica: (id: string): string => `${root}c/replica/${id}`,
  leader: (name: string): string => `${root}c/leader/${name}`,
  meta: (name: string): string => `${root}c/meta/${name}`,
  allUnique: (tenant: string): KeyRange => ({ prefix: `${root}t/${tenant}/u/` }),
  ofTenant: (tenant: string): KeyRange => ({ prefix: `${root}t/${tenant}/` }),
};

/** Sixteen digits that sort higher numbers first. */
function inverted(seq: number): string {
  return String(Number.MAX_SAFE_INTEGER - seq).padStart(16, '0');
}

/** Areas of a tenant that the mirror does not list. */
const unmirrored = new Set(['a']);

/** Those, and the area of bytes, of which the mirror keeps the sizes only. */
const uncompared = new Set([...unmirrored, 'b']);

/** The key after which a list goes on: for a key of an area that is not mirrored, the end of that area. */
export function afterUnmirrored(key: string): string {
  return behind(key, unmirrored);
}

/** The key after which a comparison of the mirror with the store goes on: it skips the area of bytes, too. */
export function afterUncompared(key: string): string {
  return behind(key, uncompared);
}

function behind(key: string, skipped: ReadonlySet<string>): string {
  const [space, tenant, area] = key.slice(root.length).split('/', 3);
  if (space !== 't' || tenant === undefined || area === undefined || !skipped.has(area)) return key;
  // the area of bytes comes next after that of the audit log: both are stepped over at once
  return `${root}t/${tenant}/${skipped.has('b') ? 'b' : area}0`; // `0` is the character after `/`
}

/** Whether what comes after the key may be bytes: it is one of that area, or the end of the area before. */
export function mayBeginBytes(key: string): boolean {
  const [space, , area] = key.slice(root.length).split('/', 3);
  return space === 't' && (area === 'b' || area === 'a0');
}

const areas = { d: 'desired', o: 'observed', e: 'events', m: 'population', b: 'bytes' } as const;

/** The meaning of a key; `undefined` for one that this version does not know. */
export function parseKey(key: string): KeyMeaning | undefined {
  if (!key.startsWith(root)) return undefined;
  const [space, ...rest] = key.slice(root.length).split('/');
  if (space === 'c') return parseClusterKey(rest);
  const [tenant, ...inTenant] = rest;
  return space !== 't' || tenant === undefined ? undefined : parseTenantKey(tenant, inTenant);
}

function parseTenantKey(tenant: string, [area, a, b, c]: string[]): KeyMeaning | undefined {
  if (a === undefined) return undefined;
  switch (area) {
    case 'd':
    case 'o':
    case 'e':
    case 'm':
    case 'b':
      return b === undefined ? undefined : { area: areas[area], tenant, kind: a, id: b };
    case 'u':
      if (b === undefined || c === undefined) return undefined;
      return { area: 'unique', tenant, kind: a, scope: decodeURIComponent(b), name: decodeURIComponent(c) };
    case 'live':
      if (a !== 'agent' && a !== 'removals' && a !== 'connections') return undefined;
      return b === undefined ? undefined : { area: a, tenant, server: b };
    case 'a':
      return parseAuditKey(tenant, a);
    case 'idem':
      return { area: 'idempotency', tenant, hash: a };
    case 'ticket':
    case 'terminal':
      return { area, tenant, hash: a };
    default:
      return undefined;
  }
}

function parseAuditKey(tenant: string, part: string): KeyMeaning | undefined {
  if (part === 'p') return { area: 'audit', tenant, part: 'pending' };
  if (part === 'c') return { area: 'audit', tenant, part: 'chained' };
  return part === 'head' ? { area: 'audit', tenant, part } : undefined;
}

function parseClusterKey([area, name]: string[]): KeyMeaning | undefined {
  if (name === undefined) return undefined;
  switch (area) {
    case 'tenant':
      return { area: 'tenant', tenant: name };
    case 'replica':
      return { area: 'replica', id: name };
    case 'leader':
      return { area: 'leader', name };
    case 'meta':
      return { area: 'meta', name };
    default:
      return undefined;
  }
}
