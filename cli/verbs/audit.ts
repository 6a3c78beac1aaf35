import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { table } from '../table.ts';

export const AuditEntries = z.array(
  z.looseObject({
    seq: z.number().nullable(),
    at: z.string(),
    route: z.string(),
    result: z.string(),
    email: z.string().nullable(),
    source: z.string().nullable(),
    role: z.string().nullable(),
    count: z.number().nullable(),
    objects: z.array(
      z.looseObject({ kind: z.string(), id: z.string(), name: z.string().nullable(), fields: z.array(z.string()) }),
    ),
  }),
);

const Link = z.object({ seq: z.number(), hash: z.string() });
const Verification = z.object({
  ok: z.boolean(),
  count: z.number(),
  head: Link.nullish(),
  broken: z.object({ seq: z.number(), reason: z.string() }).nullish(),
});

interface Options {
  project?: string;
  user?: string;
  result?: string;
  since?: string;
  known?: string;
}

/** Lists the audit log, or verifies it. @throws Error if it was altered. */
export async function audit(client: Client, action: string, options: Options): Promise<void> {
  if (action === 'list') console.log(auditTable(AuditEntries.parse(await list(client, options))));
  else if (action === 'verify') console.log(verdictOf({ data: await verify(client, options) }));
  else throw new Error(`Cannot ${action} the audit log: list or verify it`);
}

async function list(client: Client, { project, user, result, since }: Options): Promise<unknown> {
  const projectId = project === undefined ? undefined : (await findObject(client, 'projects', project)).id;
  const filter = Object.entries({ projectId, user, result, since }).filter((it): it is [string, string] => {
    return it[1] !== undefined;
  });
  return client.request('GET', `/api/v1/audit?${new URLSearchParams(filter).toString()}`);
}

async function verify(client: Client, { known }: Options): Promise<unknown> {
  const [, seq, hash] = /^(\d+):([0-9a-f]{64})$/.exec(known ?? '') ?? [];
  if (known !== undefined && (seq === undefined || hash === undefined))
    throw new Error(`A head is a number and a hash, as verify prints them, such as 42:9f86d0…: got ${known}`);
  const query = seq === undefined || hash === undefined ? '' : `?${new URLSearchParams({ seq, hash }).toString()}`;
  return client.request('GET', `/api/v1/audit/verify${query}`);
}

export function auditTable(entries: z.infer<typeof AuditEntries>): string {
  return table(
    ['at', 'who', 'from', 'route', 'result', 'objects'],
    entries.map(({ at, email, role, source, route, result, count, objects }) => [
      at,
      email ?? role ?? '',
      source ?? '',
      route,
      count === null ? result : `${result}, ${count} more`,
      objects
        .map(
          ({ kind, id, name, fields }) => `${kind} ${name ?? id}${fields.length > 0 ? `: ${fields.join(', ')}` : ''}`,
        )
        .join('; '),
    ]),
  );
}

/** The result of a verification as one line. @throws Error if the log was altered. */
export function verdictOf(answer: unknown): string {
  const { ok, count, head, broken } = z.object({ data: Verification }).parse(answer).data;
  if (!ok)
    throw new Error(
      `The audit log is not as it was written, from record ${broken?.seq ?? 'unknown'} on: ${broken?.reason ?? ''}. Compare it with a backup of the store from before`,
    );
  if (head === undefined || head === null || head.seq === 0) return 'The audit log is as it was written: it is empty';
  return `The audit log is as it was written: ${count} records; its head is ${head.seq}:${head.hash}`;
}
