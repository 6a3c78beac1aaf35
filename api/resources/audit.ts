import { z } from 'zod';
import { AuditResult, AuditedObject } from '../../store/audit/record.ts';
import type { LoggedRecord } from '../audit/read-log.ts';
import { orNull } from './object-fields.ts';

const AuditObject = z.object({
  kind: AuditedObject.shape.kind,
  id: AuditedObject.shape.id,
  name: z.string().nullable(),
  action: AuditedObject.shape.action.unwrap().nullable(),
  fields: z.array(z.string()).meta({ description: 'Names of what was changed, never what it is' }),
});

export const AuditEntry = z
  .object({
    id: z.string(),
    seq: z.int().nullable().meta({ description: 'Place in the chain; null until it is chained, which takes a second' }),
    hash: z.string().nullable(),
    at: z.string(),
    route: z.string(),
    result: AuditResult,
    user_id: z.string().nullable(),
    email: z.string().nullable(),
    key_id: z.string().nullable(),
    session_id: z.string().nullable(),
    source: z.string().nullable(),
    request_id: z.string().nullable(),
    project_id: z.string().nullable(),
    role: z.string().nullable(),
    objects: z.array(AuditObject),
    omitted: z.int().meta({ description: 'Further objects that were changed' }),
    terminal: z
      .object({
        event: z.enum(['opened', 'closed']),
        seconds: z.number().nullable(),
        bytes_in: z.number().nullable(),
        bytes_out: z.number().nullable(),
        reason: z.string().nullable(),
      })
      .nullable()
      .meta({ description: 'Of a terminal or a tunnel that was opened or closed' }),
    count: z.int().nullable().meta({ description: 'Like requests since `since` that have no record of their own' }),
    since: z.string().nullable(),
  })
  .meta({ id: 'AuditEntry' });

export function toAuditEntry({ revision, link, record }: LoggedRecord): z.infer<typeof AuditEntry> {
  const { at, route, result, user, objects, omitted } = record;
  const { key_id, session_id, source, request_id, project_id, role, count, since } = record;
  return {
    id: String(revision),
    ...orNull({ seq: link?.seq, hash: link?.hash }),
    at,
    route,
    result,
    ...orNull({ user_id: user?.id, email: user?.email }),
    ...orNull({ key_id, session_id, source, request_id, project_id, role }),
    objects: objects.map(({ kind, id, name, action, fields }) => ({
      kind,
      id,
      ...orNull({ name, action }),
      fields: fields ?? [],
    })),
    omitted: omitted ?? 0,
    terminal: toTerminal(record.terminal),
    ...orNull({ count, since }),
  };
}

function toTerminal(it: LoggedRecord['record']['terminal']): z.infer<typeof AuditEntry>['terminal'] {
  if (it === undefined) return null;
  const { event, seconds, bytes_in, bytes_out, reason } = it;
  return { event, ...orNull({ seconds, bytes_in, bytes_out, reason }) };
}
