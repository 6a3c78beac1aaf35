import { createInterface } from 'node:readline/promises';
import { z } from 'zod';
import { clusterRequest } from '../cluster-request.ts';
import { table } from '../table.ts';
import { AuditEntries, auditTable, verdictOf } from './audit.ts';

const Created = z.object({ data: z.object({ url: z.string(), setup_token: z.string().optional() }) });
const Tenant = z.object({
  name: z.string(),
  created_at: z.string(),
  state: z.string(),
  waits_for: z.array(z.string()).default([]),
});
const Tenants = z.object({ data: z.array(Tenant) });
const AuditPage = z.object({ data: AuditEntries });

/** Makes a tenant; its first user registers at its URL. */
export async function createTenant(dataDir: string, name: string): Promise<void> {
  const { url, setup_token } = Created.parse(await request(dataDir, 'POST', { name })).data;
  console.log(`Tenant ${name} is there: its address is ${url}`);
  if (setup_token !== undefined) console.log(`Its first user registers with the setup token ${setup_token}`);
}

export async function listTenants(dataDir: string): Promise<void> {
  const { data } = Tenants.parse(await request(dataDir, 'GET'));
  console.log(
    table(
      ['name', 'state', 'created', 'waits for'],
      data.map((it) => [it.name, it.state, it.created_at, it.waits_for.join(', ')]),
    ),
  );
}

/** Deletes a tenant and everything in it, after its name was typed or given as `confirmed`. */
export async function deleteTenant(dataDir: string, name: string, confirmed: string | undefined): Promise<void> {
  const typed = confirmed ?? (await ask(`Everything in the tenant ${name} will be deleted. Type its name: `));
  if (typed !== name) throw new Error(`The name was not confirmed: ${typed === '' ? 'nothing' : typed} is not ${name}`);
  await request(dataDir, 'DELETE', undefined, `/${encodeURIComponent(name)}?confirm=${encodeURIComponent(typed)}`);
  console.log(`Tenant ${name} is being deleted: setpoint tenant list shows it until it is gone`);
}

/** Prints the audit log of the installation. @throws Error if it was altered. */
export async function auditTenants(dataDir: string): Promise<void> {
  const { data } = AuditPage.parse(await clusterRequest(dataDir, 'GET', '/audit'));
  console.log(auditTable(data));
  console.log(verdictOf(await clusterRequest(dataDir, 'GET', '/audit/verify')));
}

async function ask(question: string): Promise<string> {
  if (!process.stdin.isTTY) throw new Error('There is no terminal to confirm at: repeat the name with --confirm NAME');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await terminal.question(question)).trim();
  } finally {
    terminal.close();
  }
}

function request(dataDir: string, method: string, body?: unknown, below = ''): Promise<unknown> {
  return clusterRequest(dataDir, method, `/tenants${below}`, body);
}
