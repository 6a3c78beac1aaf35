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

const ready = { type: 'Ready', status: 'true', reason: 'Serving', message: 'Version 1 serves' } as const;
const execution = {
  id: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
  trigger: 'manual' as const,
  status: 'failed' as const,
  started_at: at,
  finished_at: at,
  duration_ms: 1520,
  cold_start: true,
  cold_start_ms: 1200,
  method: 'PUT',
  path: '/orders',
  status_code: 500,
  error: { code: 'handler_failed', message: 'The handler threw: no such order' },
  log_preview: 'looking for order 3',
};

/** A function whose first version serves and whose second one failed, on a server with an agent. */
async function deployed(name: string): Promise<string> {
  const code = 'export default () => new Response("Hello")';
  const fields = { project_id: project, name, runtime: 'node20', code, exposed_port: 8100, env: { TOKEN: 'sesame' } };
  const { id } = (await owner.post('/functions', fields)).data;
  const first = (await owner.post(`/functions/${id}/deploy`)).data.version_id;
  const image = { image: 'setpoint/hello:1', image_digest: 'sha256:1' };
  await world.observe('function_version', first, { phase: 'ready', ...image, finished_at: at });
  const second = (await owner.post(`/functions/${id}/deploy`)).data.version_id;
  const error = { code: 'build_failed', message: 'Unexpected token in line 3' };
  await world.observe('function_version', second, { phase: 'failed', error, finished_at: at });
  await world.observe('function', id, { phase: 'running', active_version_id: first }, [ready]);
  await agentIsThere(world.store, { server }, { capabilities: ['functions'] });
  await world.settled();
  world.agents.answer = (_, { method }) => {
    const one = { ...execution, version_id: first };
    if (method === 'function.executions') return { items: [one], more: false };
    const body = Buffer.from('{"message":"no such order"}').toString('base64');
    return {
      execution: one,
      answer: { status: 500, headers: { 'content-type': 'application/json' }, body, truncated: false },
    };
  };
  return id;
}

it('makes a function with the code of its runtime, and deploys what was written', async () => {
  const { page } = browser;
  await open('functions', 'Functions');
  await page.getByRole('link', { name: 'New function' }).click();
  await heading('New function');
  await page.getByLabel('Name', { exact: true }).fill('greeter');
  await page.getByRole('radio', { name: 'Python 3' }).check();
  const code = page.getByRole('textbox', { name: 'Code', exact: true });
  expect(await code.inputValue()).toContain('def handler(request)');
  await page.getByRole('radio', { name: 'A schedule' }).check();
  await page.getByLabel('When').fill('15 4 * * *');
  await page.getByText('Every day at 04:15').waitFor();
  await page.getByRole('button', { name: 'Create function' }).click();
  await heading('greeter');
  const [made] = (await owner.get('/functions?q=greeter')).data;
  expect(made).toMatchObject({ runtime: 'python3', schedule: '15 4 * * *', run: 'stopped' });
  const written = page.getByRole('textbox', { name: 'Code for Python 3' });
  await written.fill('def handler(request):\n  return 1');
  await written.press('End');
  await written.press('Enter');
  await written.pressSequentially('# the end');
  await page.getByRole('button', { name: 'Difference' }).click();
  await page.getByRole('region', { name: 'Difference of the code' }).waitFor();
  await page.getByRole('button', { name: 'Save and deploy' }).click();
  await page.getByRole('status').filter({ hasText: 'A version of greeter is being built' }).waitFor();
  const { data } = await owner.get(`/functions/${made.id}`);
  expect(data).toMatchObject({ code: 'def handler(request):\n  return 1\n  # the end', status: 'deploying' });
  await open('functions', 'Functions');
  await page.getByRole('table', { name: 'Functions' }).getByText('Deploying').waitFor();
});

it('shows each part of a function without a violation of accessibility, also narrow and dark', async () => {
  const { page, complaints } = browser;
  const id = await deployed('hello');
  const faults: string[] = [];
  const places: [path: string, heading: string, read: string][] = [
    ['functions', 'Functions', 'hello'],
    [`projects/${project}/-/new-function`, 'New function', 'Show as curl'],
    [`projects/${project}`, 'shop', 'Function of Node.js 20'],
    [`functions/${id}`, 'hello', 'Unexpected token in line 3'],
    [`functions/${id}/code`, 'hello', 'Code for Node.js 20'],
    [`functions/${id}/try`, 'hello', 'What it answers is shown here'],
    [`functions/${id}/executions`, 'hello', 'no such order'],
    [`functions/${id}/logs`, 'hello', 'It has written nothing yet'],
    [`functions/${id}/variables`, 'hello', 'TOKEN'],
    [`functions/${id}/settings`, 'hello', 'What calls it'],
  ];
  for (const [at, [path, title, read]] of places.entries()) {
    const colorScheme = at % 2 === 0 ? 'light' : 'dark';
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width: 1280, height: 900 });
    await open(path, title);
    await page.getByRole('main').getByText(read).first().waitFor();
    if (colorScheme === 'light') faults.push(...(await violationsOf(page)).map((fault) => `${path}, light: ${fault}`));
    await page.setViewportSize({ width: 360, height: 800 });
    if (colorScheme === 'dark') faults.push(...(await violationsOf(page)).map((fault) => `${path}, dark: ${fault}`));
    expect(await pixelsBeyond(page), path).toBe(0);
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize({ width: 1280, height: 900 });
  expect(faults).toEqual([]);
  expect(complaints).toEqual([]);
});

it('calls a function, lists its calls, lets an earlier version serve, changes and deletes it', async () => {
  const { page } = browser;
  const [{ id, active_version_id: first }] = (await owner.get('/functions?q=hello')).data;
  await open(`functions/${id}/try`, 'hello');
  await page.getByLabel('Path').fill('/orders');
  await page.getByRole('button', { name: 'Call', exact: true }).last().click();
  const answer = page.getByRole('region', { name: 'Answer' });
  await answer.getByText('"message": "no such order"').waitFor();
  await answer.getByText('an instance was started').waitFor();
  await answer.getByText('looking for order 3').waitFor();
  await answer.getByRole('link', { name: 'All executions' }).click();
  const calls = page.getByRole('table', { name: 'Executions' });
  await calls.getByText('The handler threw: no such order').waitFor();
  await page.getByLabel('Status').selectOption('failed');
  await calls.getByRole('button', { name: 'Details' }).click();
  const details = page.getByRole('dialog', { name: 'Execution' });
  await details.getByText('handler_failed').waitFor();
  expect(await violationsOf(page)).toEqual([]);
  await details.getByRole('button', { name: 'Close' }).click();

  await page.getByRole('link', { name: 'Overview' }).click();
  await page.getByRole('button', { name: 'Actions of version 1' }).click();
  await page.getByRole('menuitem', { name: 'Let this version serve' }).click();
  await expect.poll(async () => (await owner.get(`/functions/${id}`)).data.version_id).toBe(first);

  await page.getByRole('link', { name: 'Variables' }).click();
  expect(await page.getByRole('textbox', { name: 'Value of TOKEN' }).getAttribute('type')).toBe('password');
  await page.getByLabel('Name of the new variable').fill('LEVEL');
  await page.getByLabel('Value of the new variable').fill('debug');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const bar = page.getByRole('region', { name: 'Unsaved changes' });
  await bar.getByRole('button', { name: 'Save' }).click();
  await bar.waitFor({ state: 'detached' });
  expect((await owner.get(`/functions/${id}`)).data.env).toEqual({ TOKEN: 'sesame', LEVEL: 'debug' });

  await page.getByRole('link', { name: 'Settings' }).last().click();
  await page.getByLabel('Instances at most').fill('2');
  await bar.getByRole('button', { name: 'Save' }).click();
  await bar.waitFor({ state: 'detached' });
  expect((await owner.get(`/functions/${id}`)).data.max_instances).toBe(2);

  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete hello' });
  await dialog.getByText('Port 8100 of its server').waitFor();
  await dialog.getByLabel('Type hello to confirm').fill('hello');
  await dialog.getByRole('button', { name: 'Delete hello' }).click();
  await page.getByRole('main').getByText('Being deleted').first().waitFor();
});

const [first, second] = ['1'.repeat(40), '2'.repeat(40)];
const applied = {
  commit: first,
  commit_message: 'Begin',
  at,
  outcome: 'applied' as const,
  steps: [{ action: 'create', key: 'applications.web', fields: [] }],
  changes: 1,
};
const waits = {
  commit: second,
  commit_message: 'Keep no files',
  at,
  outcome: 'waiting' as const,
  message: 'These steps lose data: volumes.files',
  steps: [
    { action: 'delete', key: 'volumes.files', fields: [] },
    { action: 'update', key: 'applications.web', fields: ['replicas'] },
  ],
  changes: 2,
};
/** What is observed of a sync whose newest commit a person has to force. */
const waiting = {
  phase: 'waiting' as const,
  commit_wanted: second,
  commit_applied: first,
  message: waits.message,
  differs: ['volumes.files', 'applications.web'],
  needs_force: ['volumes.files'],
  runs: [waits, applied],
};
const repository = 'https://git.example.test/shop.git';

it('makes a sync of a project, and follows it from its first look until it is in sync', async () => {
  const { page } = browser;
  await open('syncs', 'Syncs');
  await page.getByRole('link', { name: 'New sync' }).click();
  await heading('New sync');
  await page.getByLabel('Name', { exact: true }).fill('shop');
  await page.getByLabel('Repository', { exact: true }).fill(repository);
  await page.getByLabel('Tags').fill('v1.*');
  expect(await page.getByLabel('Branch').inputValue()).toBe('');
  await page.getByLabel('Branch').fill('main');
  await page.getByLabel('Path').fill('deploy');
  await page.getByLabel('Looks at the repository every').fill('5m');
  await page.getByRole('radio', { name: 'They are changed back' }).check();
  await page.getByRole('button', { name: 'Create sync' }).click();
  await heading('shop');
  const [made] = (await owner.get('/syncs')).data;
  const settings = { interval_seconds: 300, drift: 'correct', prune: true, is_paused: false };
  expect(made).toMatchObject({ repository_url: repository, branch: 'main', path: 'deploy', ...settings });
  const main = page.getByRole('main');
  await main.getByText('The head of main is not known yet').waitFor();
  await main.getByText('setpoint create git-webhook shop').waitFor();
  await world.observe('sync', made.id, {
    phase: 'in_sync',
    differs: [],
    needs_force: [],
    commit_applied: first,
    commit_wanted: first,
    runs: [applied],
  });
  await main.getByText('In sync', { exact: true }).waitFor();
  await main.getByText('Begin').first().waitFor();
  await main.getByText('The head of the branch is applied').waitFor();
});

it('shows each part of syncs without a violation of accessibility, also narrow and dark', async () => {
  const { page, complaints } = browser;
  const [{ id }] = (await owner.get('/syncs?q=shop')).data;
  const generation = (await world.repo.get('sync', id))?.meta.generation ?? 0;
  await world.observe('sync', id, { ...waiting, planned: { commit: second, generation } });
  const faults: string[] = [];
  const places: [path: string, heading: string, read: string][] = [
    ['syncs', 'Syncs', 'These steps lose data'],
    [`projects/${project}/-/new-sync`, 'New sync', 'Show as curl'],
    [`syncs/${id}`, 'shop', 'has to be forced'],
    [`syncs/${id}/runs`, 'shop', 'Keep no files'],
    [`syncs/${id}/settings`, 'shop', 'What becomes of changes by hand'],
  ];
  for (const colorScheme of ['light', 'dark'] as const) {
    const narrow = colorScheme === 'dark';
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize(narrow ? { width: 360, height: 800 } : { width: 1280, height: 900 });
    for (const [path, title, read] of places) {
      await open(path, title);
      await page.getByRole('main').getByText(read).first().waitFor();
      faults.push(...(await violationsOf(page)).map((fault) => `${path}, ${colorScheme}: ${fault}`));
      if (narrow) expect(await pixelsBeyond(page), path).toBe(0);
    }
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize({ width: 1280, height: 900 });
  expect(faults).toEqual([]);
  expect(complaints).toEqual([]);
});

it('forces what a commit loses once that was said, pauses, changes and deletes a sync', async () => {
  const { page } = browser;
  const [{ id }] = (await owner.get('/syncs?q=shop')).data;
  const desired = async () => (await world.repo.get('sync', id))?.desired;
  await open(`syncs/${id}`, 'shop');
  await page.getByRole('button', { name: 'Force' }).click();
  const force = page.getByRole('dialog', { name: 'Force shop' });
  await force.getByText('volumes.files: the volume with its data').waitFor();
  expect(await violationsOf(page)).toEqual([]);
  await force.getByLabel('Type shop to confirm').fill('shop');
  await force.getByRole('button', { name: 'Apply 22222222 with these losses' }).click();
  await force.waitFor({ state: 'detached' });
  expect((await desired())?.request).toMatchObject({ force: ['volumes.files'], commit: second });

  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('main').getByText('Paused', { exact: true }).waitFor();
  expect(await page.getByRole('button', { name: 'Sync now' }).getAttribute('aria-disabled')).toBe('true');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('button', { name: 'Pause' }).waitFor();

  await page.getByRole('link', { name: 'Settings' }).last().click();
  await page.getByRole('checkbox', { name: 'Delete what is not declared any more' }).uncheck();
  const bar = page.getByRole('region', { name: 'Unsaved changes' });
  await bar.getByText('has your rights').waitFor();
  await bar.getByRole('button', { name: 'Save' }).click();
  await bar.waitFor({ state: 'detached' });
  expect((await desired())?.prune).toBe(false);

  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete sync shop' });
  await dialog.getByText('All that it has made in shop').waitFor();
  await dialog.getByRole('button', { name: 'Delete shop' }).click();
  await page.getByRole('main').getByText('Being deleted').first().waitFor();
});

it('shows a viewer a sync without its verbs, and says whose they are', async () => {
  const { page } = browser;
  const guest = { email: 'viewer@example.test', password };
  const fields = { project_id: project, name: 'readable', repository_url: repository, branch: 'main' };
  const { id } = (await owner.post('/syncs', fields)).data;
  const { id: user } = await world.user('user', guest.email);
  await owner.post(`/projects/${project}/members`, { user_id: user, role: 'viewer' });
  await page.evaluate('sessionStorage.clear()');
  await page.reload();
  await signIn(page, world.url, guest);
  await open(`syncs/${id}`, 'readable');
  await page.getByRole('main').getByText('you have the role viewer').waitFor();
  expect(await page.getByRole('group', { name: 'Actions of readable' }).count()).toBe(0);
});
