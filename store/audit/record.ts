import { z } from 'zod';
import { keys } from '../keys.ts';
import type { Write } from '../store.ts';

/** The log of what belongs to no tenant, such as the making of tenants. No tenant can have this name. */
export const installationLog = '*';

/** What was done to one object. */
export const AuditedObject = z.object({
  kind: z.string(),
  id: z.string(),
  name: z.string().optional(),
  action: z.enum(['create', 'change', 'delete', 'read']).optional(),
  /** Names of fields, and of the keys of maps; never what they hold. */
  fields: z.array(z.string()).optional(),
});
export type AuditedObject = z.infer<typeof AuditedObject>;

/**
 * `ok`: the request was carried out; its transaction wrote the record, or the record was written before the secret was
 * given out. `refused`: a known user was not allowed to do it. `failed`: a login failed.
 */
export const AuditResult = z.enum(['ok', 'refused', 'failed']);

/** One line of the audit log: who did what to which objects. It holds names, never values. */
export const AuditRecord = z.object({
  v: z.literal(1),
  /** Time of the request by the clock of the replica that handled it. */
  at: z.string(),
  /** Method and path as the table of permissions has them. */
  route: z.string(),
  result: AuditResult,
  tenant: z.string(),
  user: z.object({ id: z.string(), email: z.string() }).optional(),
  /** The service key that was used. */
  key_id: z.string().optional(),
  session_id: z.string().optional(),
  /** Address of the client. */
  source: z.string().optional(),
  request_id: z.string().optional(),
  project_id: z.string().optional(),
  /** Column of the table of permissions; `operator` for the operator of the installation. */
  role: z.string().optional(),
  objects: z.array(AuditedObject),
  /** Further objects that were changed and are not named. */
  omitted: z.number().optional(),
  /** What the objects do not show of a terminal or a tunnel that was opened or closed; nothing of what went through. */
  terminal: z
    .object({
      event: z.enum(['opened', 'closed']),
      /** How long it was open. This field and those below are in the record of its closing only. */
      seconds: z.number().optional(),
      bytes_in: z.number().optional(),
      bytes_out: z.number().optional(),
      reason: z.string().optional(),
    })
    .optional(),
  /** Number of similar requests since `since` that this record stands for; the first one has a record of its own. */
  count: z.number().optional(),
  since: z.string().optional(),
});
export type AuditRecord = z.infer<typeof AuditRecord>;

/** Bounds of one record, so that any 30 of them fit into a transaction. */
const maxObjects = 20;
const maxFields = 200;

/** Cuts a record to its bounds: `omitted` counts the objects that were cut, `…` marks fields that were cut. */
function bounded(record: AuditRecord): AuditRecord {
  let room = maxFields;
  const objects = record.objects.slice(0, maxObjects).map(({ fields, ...it }) => {
    if (fields === undefined || fields.length === 0) return it;
    const shown = fields.slice(0, room);
    room -= shown.length;
    return { ...it, fields: shown.length < fields.length ? [...shown, '…'] : shown };
  });
  const omitted = record.objects.length - objects.length;
  return { ...record, objects, ...(omitted > 0 && { omitted }) };
}

/**
 * The write of a record, for the transaction that the record describes. It touches no key of another writer, so that
 * writers do not conflict: the leader chains the records later. `unique` must differ for every record.
 */
export function auditWrite(record: AuditRecord, unique: string): Write {
  const id = `${String(Date.parse(record.at)).padStart(14, '0')}-${unique}`;
  return { put: keys.auditPending(record.tenant, id), value: JSON.stringify(bounded(record)) };
}
