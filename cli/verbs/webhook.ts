import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { printed } from '../printed.ts';
import { Secrets } from '../secrets.ts';
import { age, table } from '../table.ts';
import { fieldsOf } from './describe.ts';

export interface WebhookOptions {
  provider?: string;
  repository?: string;
  /** Name of the environment that previews of requests are copies of; `none`: there are none. */
  previews?: string;
  /** The secret is asked for. */
  secret?: boolean;
  /** Another secret is made. */
  newSecret?: boolean;
}

const Made = z.object({ url: z.string(), secret: z.string() });
const Changed = z.object({ path: z.string() });
const Deliveries = z.array(
  z.object({
    id: z.string(),
    event: z.string(),
    ref: z.string().nullable(),
    // a control plane of an earlier release does not say it
    request: z.object({ number: z.int(), branch: z.string() }).nullish(),
    received_at: z.string(),
    status: z.string(),
    decision: z.string().nullable(),
    reason: z.string().nullable(),
    applications: z.array(z.object({ name: z.string(), decision: z.string(), reason: z.string() })),
  }),
);

/** Creates a webhook, and prints what is to be entered at the git host. */
export async function createWebhook(
  client: Client,
  name: string,
  { project: in_, provider, repository, secret, previews }: WebhookOptions & { project?: string },
): Promise<void> {
  if (in_ === undefined) throw new Error('A webhook is created in a project: name it by --project');
  if (provider === undefined || repository === undefined)
    throw new Error('A webhook is of a repository at a git host: name both, --provider and --repository');
  await using secrets = new Secrets();
  const project = await findObject(client, 'projects', in_);
  const made = await client.request('POST', '/api/v1/webhooks/git', {
    project_id: project.id,
    name,
    provider,
    repository_url: repository,
    ...(await previewsFrom(client, project.id, previews)),
    ...(secret === true && { secret: await secrets.next('Secret') }),
  });
  const { url, secret: value } = Made.parse(made);
  console.log(`git-webhook ${name} is created`);
  printEntry(url, value);
}

/** Changes the webhook at `at`; another secret that is made is printed, with the address that it belongs to. */
export async function setWebhook(
  client: Client,
  at: string,
  renamed: { name?: string },
  { now, project }: { now: string; project: string },
  { provider, repository, secret, newSecret, previews }: WebhookOptions,
): Promise<void> {
  await using secrets = new Secrets();
  const made = newSecret === true ? randomBytes(32).toString('base64url') : undefined;
  const another = secret === true ? await secrets.next('Secret') : made;
  const changed = await client.request('PUT', at, {
    ...renamed,
    ...(provider !== undefined && { provider }),
    ...(repository !== undefined && { repository_url: repository }),
    ...(await previewsFrom(client, project, previews)),
    ...(another !== undefined && { secret: another }),
  });
  console.log(`git-webhook ${now} is changed`);
  if (made !== undefined) printEntry(client.connection.server.replace(/\/$/, '') + Changed.parse(changed).path, made);
}

async function previewsFrom(client: Client, project: string, environment: string | undefined): Promise<object> {
  if (environment === undefined) return {};
  if (environment === 'none') return { previews: null };
  return { previews: { environment_id: (await findObject(client, 'environments', environment, project)).id } };
}

function printEntry(url: string, secret: string): void {
  console.log(
    `Enter this at the git host, for pushes, and requests if they get previews, with the content type application/json:\n  ${url}`,
  );
  console.log(`with this secret, which is not shown again:\n  ${secret}`);
}

/** Prints what a git host sent to a webhook, and what was decided, newest first; of one delivery all that is kept. */
export async function deliveries(
  client: Client,
  name: string,
  delivery: string | undefined,
  { project, output = 'text' }: { project?: string; output?: string },
): Promise<void> {
  if (delivery !== undefined) {
    const it = await client.object('GET', `/api/v1/webhooks/deliveries/${encodeURIComponent(delivery)}`);
    console.log(output === 'text' ? fieldsOf(it) : await printed(it, output));
    return;
  }
  const all = await listDeliveries(client, name, project);
  if (output !== 'text') {
    console.log(await printed(all, output));
    return;
  }
  const now = new Date();
  const rows = Deliveries.parse(all).flatMap((it) => {
    const { request } = it;
    const what = request === null || request === undefined ? (it.ref ?? '') : `#${request.number} ${request.branch}`;
    const first = [age(it.received_at, now), it.event, what];
    const applications =
      it.applications.length === 0
        ? [{ name: '', decision: it.decision ?? it.status, reason: it.reason ?? '' }]
        : it.applications;
    return applications.map((one) => [...first, one.name, one.decision, it.id, one.reason]);
  });
  if (rows.length === 0) {
    console.log(`webhook ${name} was never called`);
    return;
  }
  console.log(table(['age', 'event', 'ref', 'application', 'decision', 'id', 'message'], rows));
}

async function listDeliveries(client: Client, name: string, project: string | undefined) {
  const webhook = await findObject(client, 'git-webhooks', name, project);
  return client.list(`/api/v1/webhooks/git/${webhook.id}/deliveries`);
}

/** Has a delivery decided again, by default the newest, and prints what was decided. */
export async function replay(
  client: Client,
  name: string,
  delivery: string | undefined,
  { project }: { project?: string },
): Promise<void> {
  const id = delivery ?? (await listDeliveries(client, name, project))[0]?.id;
  if (id === undefined) throw new Error(`There is nothing to replay: webhook ${name} was never called`);
  const answer = await client.request('POST', `/api/v1/webhooks/deliveries/${id}/replay?wait=60`, {});
  const [it] = Deliveries.parse([answer]);
  for (const one of it?.applications ?? []) console.log(`${one.name}: ${one.decision}: ${one.reason}`);
  if (it?.applications.length === 0) console.log(it.reason ?? 'It is being decided');
}
