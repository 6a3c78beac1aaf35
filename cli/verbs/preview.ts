import { z } from 'zod';
import { ApiObject } from '../client.ts';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { untilEnded } from '../until-ended.ts';
import { deleteObject } from './delete.ts';
import { get } from './get.ts';

export interface PreviewOptions {
  branch?: string;
  environment?: string;
  repository?: string;
  fork?: string;
  commit?: string;
  request?: number;
  /** Hours. */
  ttl?: number;
  yes?: boolean;
}
interface Options extends PreviewOptions {
  project?: string;
  wait?: boolean;
}

const Shown = z.object({
  name: z.string(),
  status: z.string(),
  commit: z.string().nullable(),
  expires_at: z.string(),
  urls: z.array(z.string()),
  conditions: z.array(z.object({ type: z.string(), message: z.string() })),
});

/** Longer than the API lets a request wait. */
const waitSeconds = 60;

/** Lists previews, or creates, approves, extends or deletes one. @throws Error for another action, or without a name */
export async function preview(
  client: Client,
  action: string,
  name: string | undefined,
  options: Options,
  signal: AbortSignal,
): Promise<void> {
  if (action === 'list') {
    await get(client, 'previews', name, options.project === undefined ? {} : { project: options.project }, signal);
    return;
  }
  if (action !== 'create' && action !== 'approve' && action !== 'extend' && action !== 'delete')
    throw new Error(`Cannot ${action} a preview: list, create, approve, extend or delete it`);
  if (name === undefined) throw new Error(`Name the preview to ${action}: setpoint preview ${action} NAME`);
  if (action === 'delete') await deleteObject(client, 'preview', name, options);
  else if (action === 'create') await create(client, name, options);
  else if (action === 'extend') await extend(client, name, options);
  else await approve(client, name, options);
}

async function create(client: Client, name: string, options: Options): Promise<void> {
  const { project: in_, environment, branch, repository, fork, commit, request, ttl, wait } = options;
  if (in_ === undefined || branch === undefined)
    throw new Error('A preview is of a branch, in a project: name both, --branch and --project');
  const project = await findObject(client, 'projects', in_);
  const source =
    environment === undefined ? undefined : (await findObject(client, 'environments', environment, in_)).id;
  const made = await client.request('POST', `/api/v1/previews${waitFor(wait)}`, {
    project_id: project.id,
    name,
    branch,
    ...(source !== undefined && { environment_id: source }),
    ...(repository !== undefined && { repository_url: repository }),
    ...(fork !== undefined && { fork_url: fork }),
    ...(commit !== undefined && { commit }),
    ...(request !== undefined && { request_number: request }),
    ...(ttl !== undefined && { ttl_seconds: ttl * 3600 }),
  });
  await printEnd(client, made, wait);
}

async function extend(client: Client, name: string, { project, ttl }: Options): Promise<void> {
  if (ttl === undefined) throw new Error('Say how many hours from now on it lives: --ttl HOURS');
  const it = await findObject(client, 'previews', name, project);
  print(await client.request('PUT', pathOf('previews', it), { ttl_seconds: ttl * 3600 }));
}

async function approve(client: Client, name: string, { project, commit, wait }: Options): Promise<void> {
  const it = await findObject(client, 'previews', name, project);
  if (commit === undefined) {
    const asked = Shown.parse(it).commit;
    throw new Error(
      asked === null
        ? `Nothing of preview ${name} waits for an approval: it is of no fork`
        : `Look at commit ${asked} of the fork first, as it is built and runs with the secrets of the environment; then approve it by --commit ${asked}`,
    );
  }
  await printEnd(
    client,
    await client.request('POST', `${pathOf('previews', it)}/approve${waitFor(wait)}`, { commit }),
    wait,
  );
}

function waitFor(wait: boolean | undefined): string {
  return wait === false ? '' : `?wait=${waitSeconds}`;
}

/** Prints what became of a preview, or, without `wait`, how far it is. @throws Error if it is not ready */
async function printEnd(client: Client, answer: unknown, wait: boolean | undefined): Promise<void> {
  const made = wait === false ? answer : await untilEnded(client, 'previews', ApiObject.parse(answer));
  print(made);
  const { name, status } = Shown.parse(made);
  if (wait !== false && status !== 'ready')
    throw new Error(`Preview ${name} is ${status.replaceAll('_', ' ')}: setpoint describe preview ${name} says why`);
}

function print(answer: unknown): void {
  const { name, status, expires_at, urls, conditions } = Shown.parse(answer);
  console.log(`preview ${name}: ${status.replaceAll('_', ' ')}, until ${expires_at}`);
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (status !== 'ready' && ready !== undefined) console.log(ready.message);
  for (const url of urls) console.log(`  ${url}`);
}
