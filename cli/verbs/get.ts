import type { ApiObject, Client } from '../client.ts';
import type { CliKind } from '../objects.ts';
import { kindOf, listObjects, watchName } from '../objects.ts';
import { age, table } from '../table.ts';

/** Lists objects; with `watch`, prints each change as it happens. */
export async function get(
  client: Client,
  word: string,
  name: string | undefined,
  options: { project?: string; output?: string; watch?: boolean },
  signal: AbortSignal,
): Promise<void> {
  const kind = kindOf(word);
  const all = await listObjects(client, kind, options.project);
  const found = name === undefined ? all : all.filter((it) => it.name === name || it.id === name);
  if (name !== undefined && found.length === 0) throw new Error(`No ${kind.slice(0, -1)} is called ${name}`);
  console.log(
    options.output === 'json'
      ? JSON.stringify(found, null, 2)
      : table(
          headOf(kind),
          found.map((it) => rowOf(kind, it)),
        ),
  );
  if (options.watch === true) await follow(client, kind, name, signal);
}

async function follow(client: Client, kind: CliKind, name: string | undefined, signal: AbortSignal): Promise<void> {
  for await (const frame of client.stream('/ws/watch', { kinds: watchName(kind) }, signal)) {
    const it = frame['object'] as ApiObject | undefined; // the stream of changes carries objects in their REST form
    if (frame['type'] === 'deleted') console.log(`${String(frame['id'])}   deleted`);
    else if (it !== undefined && (name === undefined || it.name === name || it.id === name))
      console.log(rowOf(kind, it).join('   '));
  }
}

function headOf(kind: CliKind): string[] {
  switch (kind) {
    case 'servers':
      return ['name', 'status', 'agent', 'age', 'id'];
    case 'applications':
      return ['name', 'status', 'ready', 'replicas', 'reason', 'age', 'id'];
    case 'deployments':
      return ['number', 'status', 'trigger', 'current', 'commit', 'age', 'id'];
    default:
      return ['name', 'status', 'age', 'id'];
  }
}

function rowOf(kind: CliKind, it: ApiObject): string[] {
  const old = age(it.created_at, new Date());
  const ready = it.conditions?.find((one) => one.type === 'Ready');
  switch (kind) {
    case 'servers':
      return [it.name ?? '', it.status ?? '', text(it['agent_status']), old, it.id];
    case 'applications':
      return [
        it.name ?? '',
        it.status ?? '',
        ready?.status ?? '',
        text(it['replicas']),
        ready?.reason ?? '',
        old,
        it.id,
      ];
    case 'deployments':
      return [
        text(it['number']),
        it.status ?? '',
        text(it['trigger']),
        text(it['is_current']),
        text(it['commit']).slice(0, 12),
        old,
        it.id,
      ];
    default:
      return [it.name ?? '', it.status ?? '', old, it.id];
  }
}

function text(value: unknown): string {
  return value === undefined || value === null
    ? ''
    : typeof value === 'object'
      ? JSON.stringify(value)
      : `${value as string | number | boolean}`; // what JSON leaves
}
