/**
 * Makes the picture of the console in the README: a project as its page shows it, from an API of its own without machines.
 * Usage: node test/console-picture.ts
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { password, startApi } from './harness/api.ts';
import type { Answer, ApiWorld, Client } from './harness/api.ts';
import { openPage } from './harness/browser.ts';
import { signIn } from './harness/console-page.ts';
import { agentIsThere } from './harness/running-instance.ts';

const file = join(import.meta.dirname, '..', 'docs/images/console.png');
const size = { width: 1440, height: 900 };
const unlimited = { perMinute: 0, burst: 1 };
const ready = { type: 'Ready', status: 'true', reason: 'Running', message: 'It answers' } as const;

interface Place {
  readonly world: ApiWorld;
  readonly owner: Client;
  readonly project_id: string;
  readonly environment_id: string;
}

/** What an answer has. @throws Error if it is a refusal */
function made({ status, body, data }: Answer): Answer['data'] {
  if (status >= 300) throw new Error(`The request was refused: ${JSON.stringify(body)}`);
  return data;
}

type Phase = 'running' | 'deploying' | 'stopped';

async function application(place: Place, name: string, replicas: number, phase: Phase, host?: string): Promise<void> {
  const { world, owner, ...where } = place;
  const image_url = `ghcr.io/example/shop-${name}:4.2`;
  const fields = { ...where, name, source_type: 'image', image_url, replicas };
  const { id } = made(await owner.post('/applications', fields));
  if (host !== undefined) made(await owner.put(`/applications/${id}`, { domains: [{ host, tls: 'off' }] }));
  const ready_replicas = { running: replicas, deploying: replicas - 1, stopped: 0 }[phase];
  await world.observe('application', id, { phase, ready_replicas, consecutive_failures: 0, crash_loop_counted: false });
}

async function database(place: Place, name: string, type: string): Promise<void> {
  const { world, owner, ...where } = place;
  const { id } = made(await owner.post('/databases', { ...where, name, type }));
  await world.observe('database', id, { phase: 'running', initialised: true }, [ready]);
}

async function schedule(place: Place, name: string): Promise<void> {
  const { world, owner, ...where } = place;
  const code = 'export default () => new Response("ok")';
  const fields = { ...where, name, runtime: 'node20', code, trigger_type: 'cron', schedule: '0 6 * * *' };
  const { id } = made(await owner.post('/functions', fields));
  const { version_id } = made(await owner.post(`/functions/${id}/deploy`));
  const at = world.clock.now().toISOString();
  const built = { image: `setpoint/${name}:1`, image_digest: `sha256:${'0'.repeat(64)}`, finished_at: at };
  await world.observe('function_version', version_id, { phase: 'ready', ...built });
  await world.observe('function', id, { phase: 'running', active_version_id: version_id }, [ready]);
}

await using world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
const owner = await world.owner();
const server = made(await owner.post('/servers', { name: 'fsn1' })).id;
made(await owner.put(`/servers/${server}`, { ipAddress: '192.0.2.7', ingress: { enabled: true } }));
await agentIsThere(world.store, { server }, { capabilities: ['functions'] });
const shop = { name: 'shop', description: 'The web shop and what it needs', default_server_id: server };
const project = made(await owner.post('/projects', shop));
for (const name of ['blog', 'intern']) made(await owner.post('/projects', { name }));
const place = { world, owner, project_id: project.id };
const production = { ...place, environment_id: project.default_environment_id };
const second = await owner.post(`/projects/${project.id}/environments`, { name: 'staging', type: 'staging' });
const staging = { ...place, environment_id: made(second).id };
await application(production, 'api', 3, 'running', 'api.shop.example');
await application(production, 'web', 2, 'deploying', 'shop.example');
await application(production, 'mailer', 1, 'running');
await database(production, 'orders', 'postgres');
await database(production, 'sessions', 'redis');
await schedule(production, 'daily-report');
const { project_id, environment_id } = production;
const volume = made(await owner.post('/volumes', { project_id, environment_id, name: 'uploads' }));
await world.observe('volume', volume.id, { phase: 'available' });
await application(staging, 'api', 1, 'running', 'api.staging.shop.example');
await application(staging, 'web', 1, 'running', 'staging.shop.example');
await application(staging, 'mailer', 1, 'stopped');
await database(staging, 'orders', 'postgres');
if (world.faults.length > 0) throw new Error(world.faults.join('\n'));

await using browser = await openPage();
const { page } = browser;
await page.setViewportSize(size);
await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
await signIn(page, world.url, { email: 'owner@example.test', password });
await page.goto(`${world.url}/console#/default/projects/${project.id}`);
for (const name of ['daily-report', 'uploads']) await page.getByText(name, { exact: true }).first().waitFor();
await writeFile(file, await page.screenshot());
console.log(file);
