import { z } from 'zod';
import { displayable } from '../../api/streams/log-frames.ts';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { resumed } from '../resume.ts';

const Page = z.object({
  lines: z.array(z.looseObject({ timestamp: z.string(), stream: z.string(), message: z.string() })),
});

/** Prints the output of an application; with `follow`, continues until interrupted and resumes a broken stream. */
export async function logs(
  client: Client,
  name: string,
  options: { project?: string; follow?: boolean; tail: string },
  signal: AbortSignal,
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  if (options.follow !== true) {
    const answer = await client.request(
      'GET',
      `/api/v1/applications/${app.id}/runtime-logs?tail=${encodeURIComponent(options.tail)}`,
    );
    for (const line of Page.parse(answer).lines) print(line);
    return;
  }
  const path = `/ws/applications/${app.id}/logs`;
  for await (const frame of resumed(client, path, { tail: options.tail }, { tail: '0' }, signal)) {
    if (frame['type'] === 'log') print(frame);
    else if (frame['type'] === 'gap') console.error(`… ${String(frame['dropped'])} lines were dropped`);
    else if (frame['type'] === 'end') console.error(`The stream ended: ${String(frame['reason'])}`);
  }
}

function print(line: Record<string, unknown>): void {
  const write = line['stream'] === 'stderr' ? console.error : console.log;
  write(`${String(line['timestamp'])} ${displayable(String(line['message']))}`);
}
