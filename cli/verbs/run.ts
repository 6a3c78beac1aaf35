import { z } from 'zod';
import { displayable } from '../../api/streams/log-frames.ts';
import { createClient } from '../client.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { gapLine, resumed } from '../resume.ts';
import { secretValues } from '../secrets.ts';
import { printServerAway } from '../server-away.ts';

const Line = z.looseObject({ stream: z.string(), message: z.string() });

export interface RunOptions {
  project?: string;
  timeout?: number;
  env?: readonly string[];
  /** Names of further variables whose values are asked for. */
  secret?: readonly string[];
  readOnlyVolumes?: boolean;
  detach?: boolean;
}

/**
 * Runs a command once with the image and the configuration of an application, prints its output and exits with its code.
 * An interrupt cancels it. @throws Error if it did not end with a code
 */
export async function run(
  client: Client,
  name: string,
  command: readonly string[],
  options: RunOptions,
  signal: AbortSignal,
): Promise<void> {
  if (command.length === 0) throw new Error('Name the command: setpoint run APP -- COMMAND');
  const app = await findObject(client, 'applications', name, options.project);
  const pairs = Object.fromEntries((options.env ?? []).map(assignmentOf));
  const env = { ...pairs, ...(await secretValues(options.secret)) };
  signal.throwIfAborted();
  // an interrupt does not end these requests: what was requested is known by its id, and is cancelled
  const steady = createClient(client.connection);
  const made = await steady.object('POST', `/api/v1/applications/${app.id}/run`, {
    command,
    ...(options.timeout !== undefined && { timeout_seconds: options.timeout }),
    ...(Object.keys(env).length > 0 && { env }),
    ...(options.readOnlyVolumes === true && { read_only_volumes: true }),
  });
  if (options.detach === true) {
    console.log(`Run ${made.id} is requested: setpoint describe run ${made.id} shows how it ends`);
    return;
  }
  await follow(client, app, made, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  if (signal.aborted) await cancel(client, made);
  else await exitAs(await client.object('GET', `/api/v1/runs/${made.id}`));
}

async function follow(client: Client, app: ApiObject, made: ApiObject, signal: AbortSignal): Promise<void> {
  await printServerAway(client, app);
  for await (const frame of resumed(client, `/ws/runs/${made.id}/logs`, {}, {}, signal)) {
    if (frame['type'] === 'log') print(Line.parse(frame));
    else if (frame['type'] === 'gap') console.error(gapLine(frame));
  }
}

/** Longest wait for the answer, in milliseconds: the machinery of CI ends an interrupted process soon. */
const cancelMs = 10_000;

/** @throws Error that says what becomes of the command */
async function cancel({ connection }: Client, { id }: ApiObject): Promise<never> {
  const deadline = AbortSignal.timeout(cancelMs);
  await createClient(connection, deadline)
    .object('POST', `/api/v1/runs/${id}/cancel`, {})
    .catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(
        `Run ${id} goes on, as it could not be cancelled: ${why}: \`setpoint describe run ${id}\` shows how it ends`,
        { cause: error },
      );
    });
  throw new Error('The command is cancelled: its process is being ended');
}

async function exitAs(ended: ApiObject): Promise<void> {
  const code = ended['exit_code'];
  const error = z.object({ message: z.string() }).nullable().parse(ended['error']);
  if (typeof code !== 'number') throw new Error(error?.message ?? `The command is ${ended.status ?? 'unknown'}`);
  if (error !== null && ended.status !== 'succeeded') console.error(error.message);
  process.exitCode = code === 0 && ended.status !== 'succeeded' ? 1 : code;
}

function assignmentOf(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new Error(`Must be NAME=VALUE: ${text}`);
  return [text.slice(0, at), text.slice(at + 1)];
}

function print({ stream, message }: z.infer<typeof Line>): void {
  const write = stream === 'stdout' ? console.log : console.error;
  write(displayable(message));
}
