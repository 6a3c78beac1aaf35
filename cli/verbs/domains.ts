import { z } from 'zod';
import type { ApiObject, Client } from '../client.ts';
import { Refused } from '../client.ts';
import { findObject } from '../objects.ts';
import { table } from '../table.ts';

export interface DomainOptions {
  project?: string;
  service?: string;
  port?: number;
  tls?: string;
  redirectTo?: string;
}

const Domains = z.array(
  z.looseObject({
    host: z.string(),
    path: z.string(),
    service: z.string().nullable(),
    port: z.number().nullable(),
    tls: z.string(),
    redirect_to: z.string().nullable(),
  }),
);
type Domains = z.infer<typeof Domains>;

/** Lists the domains that lead to an application, adds one, or removes one. They need no deployment. */
export async function domains(
  client: Client,
  action: string,
  name: string,
  address: string | undefined,
  options: DomainOptions,
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const now = Domains.parse(app['domains']);
  if (action === 'list') {
    print(now);
    return;
  }
  if (action !== 'add' && action !== 'remove') throw new Error(`Cannot ${action} domains: list, add or remove`);
  if (address === undefined) throw new Error(`The address is missing: domains ${action} APPLICATION HOST[/PATH]`);
  const { host, path } = parse(address);
  if (action === 'add') {
    const { service, port, tls, redirectTo } = options;
    const added = { host, path, service, port, tls, redirect_to: redirectTo };
    await replace(client, app, [...now, added]);
    console.log(`${address} leads to ${app.name ?? name}`);
    return;
  }
  const left = now.filter((it) => it.host !== host.toLowerCase() || it.path !== path);
  if (left.length === now.length)
    throw new Error(
      `${address} does not lead to ${app.name ?? name}: \`setpoint domains list ${name}\` shows what does`,
    );
  await replace(client, app, left);
  console.log(`${address} no longer leads to ${app.name ?? name}`);
}

/** Sends the whole list for the version that was read, since the API replaces it. */
async function replace(client: Client, app: ApiObject, list: readonly object[]): Promise<void> {
  const version = String(app['resource_version']);
  try {
    await client.request('PUT', `/api/v1/applications/${app.id}`, { domains: list }, { 'if-match': version });
  } catch (error) {
    if (!(error instanceof Refused && error.message.includes('If-Match'))) throw error;
    throw new Error(`${app.name ?? app.id} was changed by another request meanwhile: try again`, { cause: error });
  }
}

function parse(address: string): { host: string; path: string } {
  const slash = address.indexOf('/');
  if (slash === -1) return { host: address, path: '/' };
  const path = address.slice(slash);
  return { host: address.slice(0, slash), path: path.length > 1 ? path.replace(/\/$/, '') : path };
}

function print(list: Domains): void {
  if (list.length === 0) {
    console.log('No domain leads to it');
    return;
  }
  const rows = list.map((it) => [
    it.path === '/' ? it.host : it.host + it.path,
    it.redirect_to ?? ([it.service, it.port].filter((one) => one !== null).join(':') || 'the application'),
    it.tls,
  ]);
  console.log(table(['address', 'leads to', 'tls'], rows));
}
