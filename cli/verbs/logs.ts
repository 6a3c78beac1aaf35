import { z } from 'zod';
import { displayable } from '../../api/streams/log-frames.ts';
import type { Client } from '../client.ts';
import { findObject, kindOf } from '../objects.ts';
import { gapLine, resumed } from '../resume.ts';

const Line = z.looseObject({ timestamp: z.string(), stream: z.string(), message: z.string() });
const Page = z.object({ lines: z.array(Line) });
const Source = z.object({ kind: z.string(), id: z.string(), name: z.string().nullable() });
const ServerPage = z.object({ lines: z.array(Line.extend({ source: Source })) });
const MergedFrame = z.discriminatedUnion('type', [
  Line.extend({ type: z.literal('log'), seq: z.int(), source: Source }),
  z.object({ type: z.literal('source'), state: z.string(), source: Source }),
  z.object({ type: z.literal('limit'), sources: z.int(), left_out: z.int() }),
  z.object({ type: z.literal('gap'), dropped: z.int().nullable(), source: Source.optional() }),
  z.object({ type: z.literal('end'), reason: z.string() }),
]);
type MergedFrame = z.infer<typeof MergedFrame>;

export interface LogsOptions {
  project?: string;
  follow?: boolean;
  tail: string;
  search?: string;
  level?: string;
  source?: string;
  previous?: boolean;
  instance?: string;
  service?: string;
}

/**
 * Prints lines of an application (`APP`), of a database (`database NAME`), of a server with all that runs there (`server
 * NAME`), or of all applications of a project (no name); with `follow`, continues until interrupted and resumes a broken stream.
 */
export async function logs(
  client: Client,
  first: string | undefined,
  second: string | undefined,
  options: LogsOptions,
  signal: AbortSignal,
): Promise<void> {
  if (first === undefined) return ofProject(client, options, signal);
  if (second === undefined) return ofApplication(client, first, options, signal);
  switch (kindOf(first)) {
    case 'applications':
      return ofApplication(client, second, options, signal);
    case 'databases':
      return ofDatabase(client, second, options, signal);
    case 'servers':
      return ofServer(client, second, options, signal);
    default:
      throw new Error(`Only an application, a database or a server has logs: got ${first}`);
  }
}

async function ofApplication(client: Client, name: string, options: LogsOptions, signal: AbortSignal): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const { instance, service, previous } = options;
  const query = {
    tail: options.tail,
    ...filter(options),
    ...(instance !== undefined && { instance_id: instance }),
    ...(service !== undefined && { service }),
  };
  if (options.follow !== true) {
    const stored = { ...query, ...(previous && { previous: 'true' }) };
    const answer = await client.request(
      'GET',
      `/api/v1/applications/${app.id}/runtime-logs?${new URLSearchParams(stored).toString()}`,
    );
    for (const line of Page.parse(answer).lines) print(line);
    return;
  }
  if (previous === true) throw new Error('--follow goes on with what serves: leave out --previous');
  await followOne(client, `/ws/applications/${app.id}/logs`, query, signal);
}

async function ofDatabase(client: Client, name: string, options: LogsOptions, signal: AbortSignal): Promise<void> {
  const it = await findObject(client, 'databases', name, options.project);
  const query = { tail: options.tail, ...filter(options) };
  if (options.follow === true) return followOne(client, `/ws/databases/${it.id}/logs`, query, signal);
  const answer = await client.request(
    'GET',
    `/api/v1/databases/${it.id}/logs?${new URLSearchParams(query).toString()}`,
  );
  for (const line of Page.parse(answer).lines) print(line);
}

/** Prints the lines of a stream of one workload, until interrupted. */
async function followOne(
  client: Client,
  path: string,
  query: Record<string, string>,
  signal: AbortSignal,
): Promise<void> {
  for await (const frame of resumed(client, path, query, { tail: '0' }, signal)) {
    if (frame['type'] === 'log') print(Line.parse(frame));
    else if (frame['type'] === 'gap') console.error(gapLine(frame));
    else if (frame['type'] === 'end') console.error(`The stream ended: ${String(frame['reason'])}`);
  }
}

async function ofServer(client: Client, name: string, options: LogsOptions, signal: AbortSignal): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const query = {
    tail: options.tail,
    ...filter(options),
    ...(options.source !== undefined && { source: options.source }),
  };
  if (options.follow === true) return followMerged(client, `/ws/servers/${server.id}/logs`, query, signal);
  const answer = await client.request(
    'GET',
    `/api/v1/servers/${server.id}/logs?${new URLSearchParams(query).toString()}`,
  );
  for (const line of ServerPage.parse(answer).lines) print(line, nameOf(line.source));
}

async function ofProject(client: Client, options: LogsOptions, signal: AbortSignal): Promise<void> {
  if (options.follow !== true) throw new Error('Name an application or a server, or follow all with logs --follow');
  const project = options.project === undefined ? undefined : await findObject(client, 'projects', options.project);
  const query = { tail: options.tail, ...filter(options), ...(project && { projectId: project.id }) };
  await followMerged(client, '/ws/logs', query, signal);
}

/** Prints the lines of a stream that merges several sources, until interrupted. */
async function followMerged(
  client: Client,
  path: string,
  query: Record<string, string>,
  signal: AbortSignal,
): Promise<void> {
  /** Numbers of the last lines that were printed: a stream that was cut repeats what came after its last cursor. */
  const printed = new Map<string, number>();
  for await (const frame of resumed(client, path, query, {}, signal)) {
    const known = MergedFrame.safeParse(frame);
    if (known.success) printMerged(known.data, printed);
  }
}

function printMerged(frame: MergedFrame, printed: Map<string, number>): void {
  switch (frame.type) {
    case 'log':
      if (frame.seq <= (printed.get(frame.source.id) ?? 0)) return;
      printed.set(frame.source.id, frame.seq);
      print(frame, nameOf(frame.source));
      return;
    case 'source':
      if (frame.state !== 'joined') console.error(`… ${nameOf(frame.source)}: ${states[frame.state] ?? frame.state}`);
      return;
    case 'limit':
      console.error(`… ${frame.left_out} applications are left out, as ${frame.sources} are followed: name a project`);
      return;
    case 'gap':
      console.error(gapLine(frame) + (frame.source === undefined ? '' : ` of ${nameOf(frame.source)}`));
      return;
    case 'end':
      console.error(`The stream ended: ${frame.reason}`);
  }
}

const states: Readonly<Record<string, string>> = {
  away: 'the agent of its server is not connected; its lines come once it is',
  back: 'the agent of its server is connected again',
  left: 'it was deleted, or may no longer be read',
};

function nameOf({ kind, id, name }: z.infer<typeof Source>): string {
  if (kind === 'agent') return kind;
  return name ?? (kind === 'deleted' ? `deleted ${id}` : id);
}

function filter({ search, level }: LogsOptions): Record<string, string> {
  return { ...(search !== undefined && { search }), ...(level !== undefined && { level }) };
}

function print(line: z.infer<typeof Line>, source?: string): void {
  const write = line.stream === 'stderr' ? console.error : console.log;
  write(`${line.timestamp} ${source === undefined ? '' : `${displayable(source)} `}${displayable(line.message)}`);
}
