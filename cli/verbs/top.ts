import PQueue from 'p-queue';
import { z } from 'zod';
import { Refused } from '../client.ts';
import type { ApiObject, Client } from '../client.ts';
import { kindOf, listObjects } from '../objects.ts';
import { bytes } from '../bytes.ts';
import { table } from '../table.ts';

const parallelRequests = 8;
/** Old enough to have several samples, and new enough to be of now. */
const range = 'since=30s&step=5s';

const Value = z.number().nullable();
const Network = z.object({ rx_bps: Value, tx_bps: Value });
const Share = z.object({ used_bytes: Value, total_bytes: Value, percent: Value });

const Usage = z.object({
  cpu: z.object({ percent: Value }),
  memory: z.object({ used_bytes: Value, limit_bytes: Value }),
  network: Network,
  disk: z.object({ read_bps: Value, write_bps: Value }),
});
type Usage = z.infer<typeof Usage>;

const ServerMetrics = z.object({
  points: z.array(
    z.object({ cpu: z.object({ percent: Value }), memory: Share, disk: Share, network: Network.optional() }),
  ),
  workloads: z.array(Usage.extend({ workload_id: z.string() })).optional(),
});
type ServerMetrics = z.infer<typeof ServerMetrics>;

const ApplicationMetrics = z.object({ points: z.array(Usage) });

/** Prints what servers or applications use now, the busiest first; a dash is for what is not known. */
export async function top(client: Client, word: string, { project }: { project?: string }): Promise<void> {
  switch (kindOf(word)) {
    case 'servers':
      await topServers(client, project);
      return;
    case 'applications':
      await topApplications(client, project);
      return;
    default:
      throw new Error(`Metrics are of servers or applications: got ${word}`);
  }
}

async function topServers(client: Client, project: string | undefined): Promise<void> {
  const servers = await listObjects(client, 'servers', project);
  const found = await metricsOf(client, servers);
  const rows = servers.map((it) => {
    const answer = found.get(it.id);
    const now = answer instanceof Refused ? undefined : answer?.points.at(-1);
    return { name: it.name ?? it.id, now, note: answer instanceof Refused ? reasonOf(answer) : '' };
  });
  const sorted = rows.toSorted((a, b) => (b.now?.cpu.percent ?? -1) - (a.now?.cpu.percent ?? -1));
  console.log(
    table(
      ['name', 'cpu', 'memory', 'disk', 'received', 'sent', 'note'],
      sorted.map(({ name, now, note }) => [
        name,
        percent(now?.cpu.percent),
        share(now?.memory),
        share(now?.disk),
        rate(now?.network?.rx_bps),
        rate(now?.network?.tx_bps),
        note,
      ]),
    ),
  );
}

async function topApplications(client: Client, project: string | undefined): Promise<void> {
  const applications = await listObjects(client, 'applications', project);
  const places = Map.groupBy(applications, (it) => String(it['server_id']));
  const found = await metricsOf(
    client,
    [...places.keys()].map((id) => ({ id })),
  );
  const rows = await inTurn(applications, async (it) => {
    const answer = found.get(String(it['server_id']));
    const name = it.name ?? it.id;
    if (answer instanceof Refused) return { name, now: undefined, note: reasonOf(answer) };
    // Users of projects are not shown what else runs on the server.
    const now =
      answer?.workloads === undefined
        ? await ofApplication(client, it)
        : answer.workloads.find(({ workload_id }) => workload_id === it.id);
    return { name, now, note: '' };
  });
  const sorted = rows.toSorted((a, b) => (b.now?.cpu.percent ?? -1) - (a.now?.cpu.percent ?? -1));
  console.log(
    table(
      ['name', 'cpu', 'memory', 'received', 'sent', 'read', 'written', 'note'],
      sorted.map(({ name, now, note }) => [
        name,
        percent(now?.cpu.percent),
        bytes(now?.memory.used_bytes) + (now?.memory.limit_bytes == null ? '' : ` of ${bytes(now.memory.limit_bytes)}`),
        rate(now?.network.rx_bps),
        rate(now?.network.tx_bps),
        rate(now?.disk.read_bps),
        rate(now?.disk.write_bps),
        note,
      ]),
    ),
  );
}

/** The metrics of servers by id, or why there are none. A server that was deleted meanwhile is left out. */
async function metricsOf(
  client: Client,
  servers: readonly Pick<ApiObject, 'id'>[],
): Promise<Map<string, ServerMetrics | Refused>> {
  const answers = await inTurn(servers, async ({ id }): Promise<[string, ServerMetrics | Refused]> => {
    try {
      const answer = await client.request('GET', `/api/v1/servers/${id}/metrics?${range}`);
      return [id, ServerMetrics.parse(answer)];
    } catch (error) {
      if (error instanceof Refused && [403, 404, 409, 503].includes(error.status)) return [id, error];
      throw error;
    }
  });
  return new Map(answers);
}

async function ofApplication(client: Client, { id }: ApiObject): Promise<Usage | undefined> {
  try {
    const answer = await client.request('GET', `/api/v1/applications/${id}/metrics?${range}`);
    return ApplicationMetrics.parse(answer).points.at(-1);
  } catch (error) {
    if (error instanceof Refused && [404, 409, 503].includes(error.status)) return undefined;
    throw error;
  }
}

/** Several at once, and the answers in the order of the items. */
function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const queue = new PQueue({ concurrency: parallelRequests });
  return Promise.all(items.map((item) => queue.add(() => work(item))));
}

function reasonOf({ status, message }: Refused): string {
  return status === 503 ? 'agent away' : status === 409 ? 'agent of an earlier release' : message;
}

function percent(value: number | null | undefined): string {
  return value == null ? '-' : `${value.toFixed(1)} %`;
}

function share(value: z.infer<typeof Share> | undefined): string {
  if (value?.used_bytes == null || value.total_bytes == null) return '-';
  return `${bytes(value.used_bytes)} of ${bytes(value.total_bytes)} (${Math.round(value.percent ?? 0)} %)`;
}

function rate(value: number | null | undefined): string {
  return value == null ? '-' : `${bytes(value)}/s`;
}
