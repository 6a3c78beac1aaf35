import { z } from 'zod';
import { readAdminFile } from '../admin-file.ts';
import { table } from '../table.ts';

const Tenants = z.object({ data: z.array(z.object({ name: z.string(), created_at: z.string() })) });
const Fault = z.object({ error: z.object({ message: z.string() }) });

/** Makes a tenant; its first user registers at its address. */
export async function createTenant(dataDir: string, name: string): Promise<void> {
  const { url } = await readAdminFile(dataDir);
  await request(dataDir, 'POST', { name });
  console.log(`Tenant ${name} is there: its address is ${url}/${name}`);
}

export async function listTenants(dataDir: string): Promise<void> {
  const { data } = Tenants.parse(await request(dataDir, 'GET'));
  console.log(
    table(
      ['name', 'created'],
      data.map((it) => [it.name, it.created_at]),
    ),
  );
}

async function request(dataDir: string, method: string, body?: unknown): Promise<unknown> {
  const { url, token } = await readAdminFile(dataDir);
  const response = await fetch(`${url}/cluster/v1/tenants`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  });
  const answer: unknown = await response.json();
  if (response.ok) return answer;
  const fault = Fault.safeParse(answer);
  throw new Error(fault.success ? fault.data.error.message : `The server answered ${response.status}`);
}
