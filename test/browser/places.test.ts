import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { violationsOf } from '../harness/axe.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { account, Town } from '../harness/command-line.ts';
import { leaveLook, looks, pixelsBeyond, signIn, takeLook } from '../harness/console-page.ts';
import { startPathProxy } from '../harness/path-proxy.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

let town: Town;
let browser: TestPage;
let serverId: string;

beforeAll(async () => {
  [town, browser] = await Promise.all([Town.start(), openPage()]);
  const [server] = (await town.client.request('GET', '/api/v1/servers')) as { id: string }[];
  serverId = server?.id ?? '';
  await signIn(browser.page, town.url, account);
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  await town?.[Symbol.asyncDispose]();
});

async function open(path: string, heading: string): Promise<void> {
  await browser.page.goto(`${town.url}/console#/default/${path}`);
  await browser.page.getByRole('heading', { name: heading, level: 1 }).waitFor();
}

/** Each page, its heading, and a text that is there once it has been read. */
const places = (): [path: string, heading: string, read: string][] => [
  ['servers', 'Servers', 'Active'],
  [`servers/${serverId}`, 'one', 'Connection of its agent'],
  [`servers/${serverId}/checks`, 'one', 'Engine'],
  [`servers/${serverId}/workloads`, 'one', 'Nothing runs here yet'],
  [`servers/${serverId}/metrics`, 'one', 'Range of time'],
  [`servers/${serverId}/logs`, 'one', 'What logs take on its disk'],
  [`servers/${serverId}/ports`, 'one', 'No port is taken'],
  [`servers/${serverId}/adoption`, 'one', 'What runs here already'],
  [`servers/${serverId}/settings`, 'one', 'Web traffic'],
  ['settings', 'Settings', 'Create projects'],
  ['settings/users', 'Settings', account.email],
  ['settings/registries', 'Settings', 'No registry yet'],
  ['settings/git-credentials', 'Settings', 'No git credential yet'],
  ['settings/ssh-keys', 'Settings', 'No SSH key yet'],
  ['settings/destinations', 'Settings', 'No backup destination yet'],
  ['settings/limits', 'Settings', 'Stored'],
  ['volumes', 'Volumes', 'No volume yet'],
  [`projects/${String(town.project.id)}/-/members`, 'Members', account.email],
  ['activity', 'Activity', 'made'],
  ['notifications', 'Notifications', 'Nothing needs you'],
  ['account', 'Account', 'Change the password'],
  ['account/keys', 'Account', 'No key yet'],
  ['account/sessions', 'Account', 'this one'],
  ['account/two-factor', 'Account', 'Set up'],
  ['gallery', 'Gallery', 'Shapes'],
  ['gallery?part=data', 'Gallery', 'Difference by field'],
  ['gallery?part=forms', 'Gallery', 'A form made from a schema'],
  ['gallery?part=logs', 'Gallery', 'Terminal'],
];

for (const { turn, tags } of looks)
  it(`shows each place without a violation of accessibility, ${turn}`, { tags }, async () => {
    const { page, complaints } = browser;
    const faults: string[] = [];
    for (const [at, [path, heading, read]] of places().entries()) {
      const narrow = await takeLook(page, turn, at);
      await open(path, heading);
      await page
        .getByRole('main')
        .getByText(read)
        .or(page.getByRole('group', { name: read }))
        .first()
        .waitFor();
      faults.push(...(await violationsOf(page)).map((fault) => `${path}: ${fault}`));
      if (narrow) expect(await pixelsBeyond(page), path).toBe(0);
    }
    await leaveLook(page);
    expect(faults).toEqual([]);
    expect(complaints).toEqual([]);
  });

describe('on the page of servers', () => {
  it('a server is declared, and the command for its machine is shown', async () => {
    const { page } = browser;
    await open('servers', 'Servers');
    await page.getByRole('button', { name: 'New server' }).click();
    const drawer = page.getByRole('dialog', { name: 'New server' });
    await drawer.getByLabel('Name', { exact: true }).fill('two');
    await drawer.getByText('Show as curl').click();
    await drawer.getByText('"name": "two"').waitFor();
    await drawer.getByRole('button', { name: 'Create server' }).click();
    const joining = page.getByRole('dialog', { name: 'How two joins' });
    await joining.getByText('SETPOINT_JOIN_TOKEN').waitFor();
    await joining.getByText('Waiting for the agent').waitFor();
    await joining.getByRole('link', { name: 'Open two' }).click();
    await page.getByRole('heading', { name: 'two', level: 1 }).waitFor();
  });

  it('its settings are changed by a form of its schema, after the difference was shown', async () => {
    const { page } = browser;
    await open(`servers/${serverId}/settings`, 'one');
    await page.getByLabel('Days that logs are kept').fill('400');
    const bar = page.getByRole('region', { name: 'Unsaved changes' });
    await bar.getByRole('button', { name: 'Save' }).click();
    await page.getByText('is at most 365').waitFor();
    await page.getByLabel('Days that logs are kept').fill('9');
    await bar.getByRole('button', { name: 'Difference' }).click();
    await bar.getByRole('row').filter({ hasText: 'log_retention_days' }).waitFor();
    await bar.getByRole('button', { name: 'Save' }).click();
    await bar.waitFor({ state: 'detached' });
    const server = await town.client.object('GET', `/api/v1/servers/${serverId}`);
    expect(server['log_retention_days']).toBe(9);
  });

  it('a server without workloads is deleted once what goes was said', async () => {
    const { page } = browser;
    const spare = await town.client.object('POST', '/api/v1/servers', { name: 'spare' });
    await open(`servers/${String(spare.id)}`, 'spare');
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete server spare' });
    await dialog.getByText('The machine itself').waitFor();
    await dialog.getByRole('button', { name: 'Delete spare' }).click();
    await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'spare' }).waitFor({ state: 'detached' });
  });

  it('a server with a database alone is deleted only with force, after what ends was said', async () => {
    const { page } = browser;
    const spare = await town.client.object('POST', '/api/v1/servers', { name: 'held' });
    const { id } = await town.client.object('POST', '/api/v1/databases', {
      name: 'orders',
      type: 'postgres',
      project_id: town.project.id,
      server_id: spare.id,
    });
    await open(`servers/${String(spare.id)}`, 'held');
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete server held' });
    await dialog.getByText('This server has database orders').waitFor();
    await dialog.getByLabel('Delete it with all workloads on it').check();
    await dialog.getByText('What runs of database orders').waitFor();
    await dialog.getByText('out of reach of Setpoint').waitFor();
    await dialog.getByLabel('Type held to confirm').fill('held');
    await dialog.getByRole('button', { name: 'Delete held' }).click();
    await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'held' }).waitFor({ state: 'detached' });
    await town.client.request('DELETE', `/api/v1/databases/${String(id)}?force=true`);
  });
});

it('a registry is kept without being tried, is listed, and is deleted', async () => {
  const { page } = browser;
  await open('settings/registries', 'Settings');
  await page.getByRole('button', { name: 'Add a registry' }).click();
  const form = page.getByRole('dialog', { name: 'Add a registry' });
  await form.getByRole('button', { name: 'Add', exact: true }).click();
  await form.getByText('Address is needed').waitFor();
  await form.getByLabel('Name', { exact: true }).fill('own');
  await form.getByLabel('Address').fill('registry.example.test');
  await form.getByLabel('Username').fill('ci');
  await form.getByLabel('Password').fill('hunter22');
  await form.getByLabel('Keep it also if the control plane cannot log in').check();
  await form.getByText('Show as curl').click();
  expect(await form.getByText('$PASSWORD').count()).toBeGreaterThan(0);
  expect(await form.locator('pre').innerText()).not.toContain('hunter22');
  await form.getByRole('button', { name: 'Add', exact: true }).click();
  const row = page.getByRole('row').filter({ hasText: 'registry.example.test' });
  await row.getByText('Not used').waitFor();
  await row.getByRole('button', { name: 'Actions of own' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete own' }).click();
  await page.getByRole('heading', { name: 'No registry yet' }).waitFor();
});

it('a service key is shown once, and closing before it is stored asks', async () => {
  const { page } = browser;
  await open('account/keys', 'Account');
  await page.getByRole('button', { name: 'New key' }).click();
  const form = page.getByRole('dialog', { name: 'New service key' });
  await form.getByLabel('Name').fill('ci');
  await form.getByRole('button', { name: 'Make the key' }).click();
  const shown = page.getByRole('dialog', { name: 'The key ci' });
  const key = await shown.locator('pre').innerText();
  expect(key).toMatch(/^sp_/);
  await page.keyboard.press('Escape');
  await shown.getByText('is not saved').waitFor();
  await shown.getByRole('button', { name: 'Go on' }).click();
  await shown.getByLabel('I have stored it').check();
  await shown.getByRole('button', { name: 'Done' }).click();
  const row = page.getByRole('row').filter({ hasText: 'ci' });
  await row.getByText('deploy').waitFor();
});

it('a second factor is begun with a picture and a secret', async () => {
  const { page } = browser;
  await open('account/two-factor', 'Account');
  await page.getByLabel('Your password').fill(account.password);
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.getByRole('img', { name: 'The secret as a picture' }).waitFor();
});

it('the audit log is filtered, opened and verified', async () => {
  const { page } = browser;
  await open('activity', 'Activity');
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('are as they were written').waitFor();
  await page
    .getByRole('button', { name: /made server two/ })
    .first()
    .click();
  const drawer = page.getByRole('dialog', { name: 'What was recorded' });
  await drawer.getByText('POST /servers').first().waitFor();
  await drawer.getByRole('button', { name: 'Close' }).click();
  await page.getByLabel('Result').selectOption('failed');
  await page.getByRole('heading', { name: 'Nothing was recorded' }).waitFor();
});

it(
  'the reference of the API begins with its areas, and shows each operation under the same policy, by a part of its path, also dark',
  { tags: [longTag] },
  async () => {
    const { page, complaints } = browser;
    // what the pages before asked for may be gone by now
    complaints.length = 0;
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.goto(`${town.url}/docs`);
    await page.getByRole('heading', { name: /^Setpoint/ }).waitFor();
    expect(await page.locator('html').getAttribute('class')).toBe('dark-mode');
    const operations = page.locator('.opblock');
    await page.locator('.opblock-tag').first().waitFor();
    expect(await operations.count()).toBe(0);
    await page.getByRole('button', { name: 'Expand operation' }).first().click();
    await operations.first().waitFor();
    await page.getByPlaceholder('Filter by tag or path').fill('/syncs/{id}/sync');
    await page.getByRole('button', { name: /Read the repository and apply the head of the branch/ }).click();
    await page.getByText('Request body').waitFor();
    await page.getByText('"force": [').waitFor();
    for (const name of ['Authorize', 'Try it out'])
      expect(await page.getByRole('button', { name }).count(), name).toBe(0);
    await page.emulateMedia({ colorScheme: null });
    expect(complaints).toEqual([]);
  },
);

it('a volume is made, and deleted once its name was typed', async () => {
  const { page } = browser;
  await town.client.request('PUT', `/api/v1/projects/${String(town.project.id)}`, { default_server_id: serverId });
  await open('volumes', 'Volumes');
  await page.getByRole('button', { name: 'New volume' }).click();
  const form = page.getByRole('dialog', { name: 'New volume' });
  await form.getByLabel('Name').fill('data');
  const server = form.getByRole('combobox', { name: 'Server' });
  await server.fill('on');
  await page.getByRole('option', { name: 'one' }).click();
  await form.getByRole('button', { name: 'Create volume' }).click();
  const row = page.getByRole('row').filter({ hasText: 'data' });
  await row.getByText('Free').waitFor();
  await row.getByRole('button', { name: 'Actions of data' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete volume data' });
  await dialog.getByLabel('Type data to confirm').fill('data');
  await dialog.getByRole('button', { name: 'Delete data' }).click();
  await page.getByRole('heading', { name: 'No volume yet' }).waitFor();
});

describe('a log', () => {
  it('of 100,000 lines draws only what is seen, is searched, folded and followed', async () => {
    const { page } = browser;
    await open('gallery?part=logs', 'Gallery');
    const log = page.getByRole('log', { name: 'Sample log' });
    await page.getByRole('button', { name: 'Fold all' }).click();
    await until('only steps are left', async () => (await log.locator('.log-line').count()) === 3);
    await page.getByRole('button', { name: '100,000 lines' }).click();
    await until('the end is shown', async () => (await log.innerText()).includes('100000'));
    expect(await log.locator('.log-line').count()).toBeLessThan(200);
    const find = page.getByRole('searchbox', { name: 'Find in Sample log' });
    await find.fill('slow query');
    await page.getByText(/of 10,000\+/).waitFor();
    await find.press('Enter');
    await log.locator('mark').first().waitFor();
    await page.getByRole('button', { name: 'One more' }).click();
    await page.getByRole('button', { name: '1 new' }).click();
    await log.getByText('one more line').waitFor();
  });
});

it('loads again when the module of a page did not arrive, and says so where that was of no use', async () => {
  const { page, complaints } = browser;
  await page.route('**/console/backups-page-*.js', (route) => route.abort(), { times: 1 });
  await open('backups', 'Backups');
  await page.route('**/console/templates-page-*.js', (route) => route.abort());
  await open('templates', 'This page has a defect');
  await page.unroute('**/console/templates-page-*.js');
  await page.getByRole('button', { name: 'Load the console again' }).click();
  await page.getByRole('heading', { name: 'Templates', level: 1 }).waitFor();
  complaints.length = 0;
});

it('the console and the reference of the API work below a path that a proxy takes off', async () => {
  const { page, complaints } = browser;
  complaints.length = 0;
  await using proxy = await startPathProxy('/tools/setpoint', town.url);
  await page.goto(`${proxy.url}/`);
  await page.waitForURL(`${proxy.url}/console`);
  await signIn(page, proxy.url, account);
  await town.client.object('POST', '/api/v1/projects', { name: 'below-a-path' });
  const projects = page.getByRole('table', { name: 'Projects' });
  await projects.getByRole('link', { name: 'below-a-path' }).waitFor();
  await page.goto(`${proxy.url}/console/#/default/servers`);
  await page.getByRole('button', { name: 'New server' }).click();
  const drawer = page.getByRole('dialog', { name: 'New server' });
  await drawer.getByText('Show as curl').click();
  await drawer.getByText(`${proxy.url}/default/api/v1/servers`).waitFor();
  await page.goto(`${proxy.url}/docs/`);
  await page.getByRole('heading', { name: /^Setpoint/ }).waitFor();
  expect(proxy.strays).toEqual([]);
  expect(complaints).toEqual([]);
});
