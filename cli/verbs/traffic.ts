import { z } from 'zod';
import { bytes } from '../bytes.ts';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { resumed } from '../resume.ts';
import { Columns, table } from '../table.ts';

const Milliseconds = z.number().nullable();
const Counts = z.object({
  requests: z.int(),
  rps: z.number(),
  status: z.partialRecord(z.enum(['1xx', '2xx', '3xx', '4xx', '5xx']), z.int()),
  latency_ms: z.object({ p50: Milliseconds, p95: Milliseconds, p99: Milliseconds }),
  bytes_in: z.number(),
  bytes_out: z.number(),
  refused: z.object({ unavailable: z.int(), unauthorized: z.int(), body_too_large: z.int() }),
});
type Counts = z.infer<typeof Counts>;
const Point = Counts.extend({ timestamp: z.string(), complete: z.boolean() });
type Point = z.infer<typeof Point>;
const Traffic = z.object({
  available: z.boolean(),
  message: z.string().nullable(),
  total: Counts.extend({ complete: z.boolean() }).nullable(),
  points: z.array(Point),
  instances: z.array(Counts.extend({ instance_id: z.string() })),
});

export interface TrafficOptions {
  project?: string;
  follow?: boolean;
  since: string;
  step: string;
}

/** Prints the requests to an application by steps, and by instances; with `follow`, every 5 s until interrupted. */
export async function traffic(client: Client, name: string, options: TrafficOptions, signal: AbortSignal) {
  const app = await findObject(client, 'applications', name, options.project);
  if (options.follow === true) return follow(client, app.id, signal);
  const query = new URLSearchParams({ since: options.since, step: options.step });
  const answer = Traffic.parse(
    await client.request('GET', `/api/v1/applications/${app.id}/traffic?${query.toString()}`),
  );
  if (!answer.available) {
    console.log(answer.message ?? 'Its requests are not counted');
    return;
  }
  if (answer.total === null) {
    console.log('Nothing is known of that time: the agent of its server counts from its start on, for an hour');
    return;
  }
  console.log(table(['time', ...heads], answer.points.map(rowOf)));
  console.log();
  console.log(
    table(
      ['instance', ...heads],
      [
        ...answer.instances.map((one) => [one.instance_id, ...cellsOf(one), '']),
        ['all', ...cellsOf(answer.total), noteOf(answer.total)],
      ],
    ),
  );
}

async function follow(client: Client, id: string, signal: AbortSignal): Promise<void> {
  let columns: Columns | undefined;
  for await (const frame of resumed(client, `/ws/applications/${id}/traffic`, {}, {}, signal)) {
    if (frame['type'] === 'unavailable') console.error(String(frame['message']));
    else if (frame['type'] === 'end') console.error(`The stream ended: ${String(frame['reason'])}`);
    else if (frame['type'] === 'traffic') {
      const row = rowOf(Point.parse(frame));
      const head = ['time', ...heads].map((it) => it.toUpperCase());
      if (columns === undefined) {
        columns = new Columns([head, row]);
        console.log(columns.line(head));
      }
      console.log(columns.line(row));
    }
  }
}

const heads = ['requests', 'per s', '1xx', '2xx', '3xx', '4xx', '5xx', 'p50', 'p95', 'p99', 'in', 'out', 'note'];

function rowOf(point: Point): string[] {
  return [point.timestamp, ...cellsOf(point), noteOf(point)];
}

function cellsOf({ requests, rps, status, latency_ms, bytes_in, bytes_out }: Counts): string[] {
  const classes = (['1xx', '2xx', '3xx', '4xx', '5xx'] as const).map((one) => String(status[one] ?? 0));
  const times = [latency_ms.p50, latency_ms.p95, latency_ms.p99].map((ms) => (ms === null ? '-' : `${ms} ms`));
  return [String(requests), String(rps), ...classes, ...times, bytes(bytes_in), bytes(bytes_out)];
}

/** What the figures alone do not say. */
function noteOf({ complete, refused }: Counts & { complete: boolean }): string {
  const notes = [
    complete ? '' : 'some are missing',
    refused.unavailable > 0 ? `${refused.unavailable} without a ready instance` : '',
    refused.unauthorized > 0 ? `${refused.unauthorized} not authorized` : '',
    refused.body_too_large > 0 ? `${refused.body_too_large} with too long a body` : '',
  ];
  return notes.filter((note) => note !== '').join(', ');
}
