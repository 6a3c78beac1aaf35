import { z } from 'zod';
import { agentSource } from '../../agent-protocol/logs.ts';
import { assignment } from '../../store/kinds/assignment.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** Kinds of objects that write lines on servers. */
export const loggingKinds = assignment.desired.shape.workload_kind.options;

/** What wrote a line: the agent of the server, an object, or an object that was deleted since. */
export const LogSourceField = z
  .object({
    kind: z.enum([agentSource, ...loggingKinds, 'deleted']),
    id: z.string().meta({ description: 'Of the object; of the server for its agent' }),
    name: z.string().nullable().meta({ description: 'null for an object that does not exist any more' }),
  })
  .meta({ id: 'LogSource' });
export type LogSourceField = z.infer<typeof LogSourceField>;

/** The source with an id by which the agent of a server keeps lines. */
export function logSourceOf(view: TenantView, server: ReadonlyResource<'server'>, id: string): LogSourceField {
  if (id === agentSource) return { kind: agentSource, id: server.meta.id, name: server.desired.name };
  for (const kind of loggingKinds) {
    const it = view.get(kind, id);
    if (it !== undefined) return { kind, id, name: it.desired.name };
  }
  return { kind: 'deleted', id, name: null };
}
