import { z } from 'zod';
import { AuditResult } from '../../store/audit/record.ts';
import { UtcTime } from '../../store/kinds/fields.ts';
import { verifyChain } from '../../store/audit/verify.ts';
import { badRequest, forbidden } from '../ground/api-error.ts';
import { readLog } from '../audit/read-log.ts';
import { defineEndpoint, defineList } from '../endpoint/endpoint.ts';
import { serialise } from '../ground/cached-json.ts';
import { pageBounds } from '../resources/paging.ts';
import { AuditEntry, toAuditEntry } from '../resources/audit.ts';
import { Reference } from '../resources/object-fields.ts';

export const listAudit = defineList({
  path: '/audit',
  summary: 'Who did what, newest first; who administers a project sees its part, by projectId',
  projectFrom: 'query.projectId',
  query: z.strictObject({
    ...pageBounds,
    projectId: Reference.optional(),
    user: z.string().max(254).optional().meta({ description: 'Id or e-mail' }),
    key: Reference.optional(),
    route: z.string().max(200).optional(),
    kind: z.string().max(50).optional(),
    id: z.string().max(200).optional().meta({ description: 'Of an object, or of the project it belongs to' }),
    result: AuditResult.optional(),
    since: UtcTime.optional(),
    until: UtcTime.optional(),
  }),
  item: AuditEntry,
  handle: async ({ store, tenant, access }, { query }) => {
    if (access.grant === 'f' && query.projectId === undefined)
      throw forbidden('Name a project with projectId: the whole log is for administrators');
    const { limit, cursor, ...filter } = query;
    const { records, next } = await readLog(store, tenant, filter, { limit, cursor });
    return {
      items: records.map((it) => serialise(toAuditEntry(it))),
      meta: { next_cursor: next, limit, total: null },
    };
  },
});

const Link = z.object({ seq: z.int(), hash: z.string() });

export const verifyAudit = defineEndpoint({
  method: 'GET',
  path: '/audit/verify',
  summary: 'Whether the audit log is as it was written; `seq` and `hash` name a record that was noted before',
  heavy: true,
  query: z.object({
    seq: z.coerce.number().int().min(1).optional(),
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional(),
  }),
  response: z
    .object({
      ok: z.boolean(),
      count: z.int().meta({ description: 'Records that are as they were written' }),
      head: Link.nullable().meta({ description: 'The last record, to be noted elsewhere' }),
      anchor: Link.nullable().meta({ description: 'The last record that was forgotten' }),
      broken: z
        .object({ seq: z.int(), reason: z.string() })
        .nullable()
        .meta({ description: 'The first record that is not as it was written' }),
    })
    .meta({ id: 'AuditVerification' }),
  handle: async ({ store, tenant, signal }, { query: { seq, hash } }) => {
    if ((seq === undefined) !== (hash === undefined)) throw badRequest('seq and hash must be sent together');
    const known = seq === undefined || hash === undefined ? undefined : { seq, hash };
    const found = await verifyChain(store, tenant, signal(), known);
    return { head: null, anchor: null, broken: null, ...found };
  },
});
