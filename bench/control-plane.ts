import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { createClient } from '../cli/client.ts';
import type { ApiObject, Client } from '../cli/client.ts';
import { Child } from './child.ts';
import type { ControlPlaneArgument, ControlPlaneMethods } from './programs/control-plane.ts';

/** The first user. */
export const owner = { email: 'owner@example.test', password: 'correct horse battery' };
const Login = z.object({ token: z.string() });

/** A control plane in its own process, with its first user logged in. */
export interface BenchControlPlane extends AsyncDisposable {
  child: Child<ControlPlaneMethods>;
  url: string;
  token: string;
  client: Client;
  project: ApiObject;
  server: ApiObject;
}

/** Registers and logs in the first user. Resolves with the user's token. */
export async function logIn(url: string): Promise<string> {
  const visitor = createClient({ server: url, tenant: 'default' });
  await visitor.request('POST', '/api/v1/auth/register', { ...owner, first_name: 'Olive', last_name: 'Owner' });
  return Login.parse(await visitor.request('POST', '/api/v1/auth/login', owner)).token;
}

/** Starts a control plane. `store`: a URL, or `file` for SQLite in the folder of the benchmark. */
export async function startControlPlane(store: string): Promise<BenchControlPlane> {
  await using starting = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
  starting.defer(() => rm(dataDir, { recursive: true, force: true }));
  const argument: ControlPlaneArgument = {
    store: store === 'file' ? `sqlite:${join(dataDir, 'store.db')}` : store,
    dataDir,
  };
  const child = starting.use(await Child.start<ControlPlaneMethods>('control-plane', argument));
  const url = await child.call('url');
  const token = await logIn(url);
  const client = createClient({ server: url, tenant: 'default', token });
  // No limit on writes: one user writes as fast as the program answers.
  const any = { written_bytes_per_minute: 0 };
  await client.request('PUT', '/api/v1/settings', { budgets: { project: any, user: any, tenant: any } });
  const project = await client.object('POST', '/api/v1/projects', { name: 'bench' });
  const server = await client.object('POST', '/api/v1/servers', { name: 'one' });
  const running = starting.move();
  return { child, url, token, client, project, server, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

/** Creates stopped applications, so that a change of them starts no rollout. */
export async function createApplications(plane: BenchControlPlane, count: number): Promise<ApiObject[]> {
  const created: ApiObject[] = [];
  for (let n = 0; n < count; n += 1) {
    const fields = { source_type: 'image', image_url: 'ghcr.io/example/web:1', env: { COLOUR: 'blue' } };
    const place = { project_id: plane.project.id, server_id: plane.server.id };
    created.push(await plane.client.object('POST', '/api/v1/applications', { name: `web-${n}`, ...place, ...fields }));
  }
  return created;
}
