import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { violationsOf } from '../harness/axe.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { pixelsBeyond, signIn } from '../harness/console-page.ts';
import { agentIsThere } from '../harness/running-instance.ts';

const unlimited = { perMinute: 0, burst: 1 };
const at = '2026-01-02T03:04:05.000Z';

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
let browser: TestPage;
let project: string;
let server: string;

beforeAll(async () => {
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  [owner, browser] = await Promise.all([world.owner(), openPage()]);
  running.use(browser);
  browser.page.setDefaultTimeout(5_000);
  // the first page makes the bundle, as other servers do beside it
  browser.page.setDefaultNavigationTimeout(30_000);
  // a test that failed leaves what it entered
  browser.page.on('dialog', (dialog) => void dialog.accept());
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  await owner.put(`/servers/${server}`, { direct_ports_enabled: true, ipAddress: '192.0.2.7' });
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  await signIn(browser.page, world.url, { email: 'owner@example.test', password });
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

beforeEach(({ onTestFailed }) => {
  onTestFailed(async () => console.error((await browser.page.locator('body').innerText()).slice(0, 2000)));
});

async function open(path: string, heading: string): Promise<void> {
  await browser.page.goto(`${world.url}/console#/default/${path}`);
  await browser.page.getByRole('heading', { name: heading, level: 1 }).waitFor();
}

const heading = (name: string) => browser.page.getByRole('heading', { name, level: 1 }).waitFor();
