import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { signIn } from '../harness/console-page.ts';
import { until } from '../harness/until.ts';

const unlimited = { perMinute: 0, burst: 1 };

let world: ApiWorld;
let owner: Client;
let browser: TestPage;
let project: string;
let server: string;
/** What the page has asked before it was left, and whether it was stayed on then. */
let asked: string[];
let stays: boolean;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  [owner, browser] = await Promise.all([world.owner(), openPage()]);
  browser.page.setDefaultTimeout(5_000);
  // the first page makes the bundle, as other servers do beside it
  browser.page.setDefaultNavigationTimeout(30_000);
  browser.page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    void (stays ? dialog.dismiss() : dialog.accept());
  });
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  await signIn(browser.page, world.url, { email: 'owner@example.test', password });
});
afterAll(async () => {
  await browser[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

beforeEach(({ onTestFailed }) => {
  asked = [];
  // a test that failed leaves what it entered
  stays = false;
  onTestFailed(async () => console.error((await browser.page.locator('body').innerText()).slice(0, 2000)));
});

/** Opens a page anew, without what an earlier one has said. */
async function open(path: string, heading: string): Promise<void> {
  await browser.page.goto('about:blank');
  await browser.page.goto(`${world.url}/console#/default/${path}`);
  await browser.page.getByRole('heading', { name: heading, level: 1 }).waitFor();
}

async function made(path: string, name: string, fields: object = {}): Promise<string> {
  const { data, status, body } = await owner.post(path, { project_id: project, name, ...fields });
  expect([status, body.error]).toEqual([201, undefined]);
  return data.id;
}

async function application(name: string, fields: object = {}): Promise<string> {
  return made('/applications', name, { source_type: 'image', image_url: 'web:1', exposed_port: 8080, ...fields });
}

/** The bodies of the requests that the page sends by `method` to paths that end so. */
function sent(method: string, end: string): unknown[] {
  const bodies: unknown[] = [];
  browser.page.on('request', (request) => {
    if (request.method() === method && new URL(request.url()).pathname.endsWith(end))
      bodies.push(request.postDataJSON());
  });
  return bodies;
}

describe('the deletion of an environment', () => {
  const dialogOf = async (filter = '') => {
    const { page } = browser;
    await open(`projects/${project}?q=${filter}`, 'shop');
    await page.getByRole('button', { name: 'Actions of staging' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    return page.getByRole('dialog', { name: 'Delete staging' });
  };

  it('names all that goes, whatever the page is filtered by, and is asked for again where more comes', async () => {
    const environment_id = (await owner.post(`/projects/${project}/environments`, { name: 'staging' })).data.id;
    await application('web', { environment_id });
    await made('/databases', 'orders', { environment_id, type: 'postgres' });
    await made('/volumes', 'files', { environment_id });
    const dialog = await dialogOf('web');
    for (const name of ['The application web', 'The database orders with its data', 'The volume files with its data'])
      await dialog.getByText(name, { exact: true }).waitFor();
    await dialog.getByLabel('Type staging to confirm').fill('staging');
    await made('/databases', 'users', { environment_id, type: 'redis' });
    await dialog.getByText('The database users with its data').waitFor();
    const verb = dialog.getByRole('button', { name: 'Delete environment' });
    expect(await verb.getAttribute('aria-disabled')).toBe('true');
    await dialog.getByLabel('Type staging to confirm').fill('');
    await dialog.getByLabel('Type staging to confirm').fill('staging');
    expect(await verb.getAttribute('aria-disabled')).not.toBe('true');
  });

  it('is not to be had while it is not known what goes', async () => {
    const { page } = browser;
    await page.route('**/api/v1/databases?*', (route) => route.fulfill({ status: 403, json: { success: false } }));
    const dialog = await dialogOf();
    await dialog.getByLabel('Type staging to confirm').fill('staging');
    expect(await dialog.getByRole('button', { name: 'Delete environment' }).getAttribute('aria-disabled')).toBe('true');
    await page.unroute('**/api/v1/databases?*');
  });
});

describe('variables', () => {
  const ofVariables = (id: string): string => `projects/${project}/production/applications/${id}/environment`;
  const stored = async (id: string): Promise<unknown> => (await owner.get(`/applications/${id}/env`)).data.env;

  it('keep the line breaks of their values in the table', async () => {
    const { page } = browser;
    const id = await application('keys', { env: { KEY: 'a\nb' } });
    await open(ofVariables(id), 'keys');
    await page.getByRole('button', { name: 'Show the value of KEY' }).click();
    const value = page.getByLabel('Value of KEY', { exact: true });
    await value.press('Control+End');
    await value.pressSequentially('c');
    await page.getByLabel('Name of the new variable').fill('PEM');
    const fresh = page.getByLabel('Value of the new variable');
    await fresh.focus();
    /** Returns whether it is left to the browser. */
    const paste = (pasted: string): Promise<unknown> =>
      page.evaluate(`(() => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', ${JSON.stringify(pasted)});
        const pasted = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
        return document.activeElement.dispatchEvent(pasted);
      })()`);
    // a line that was copied with its end is one line
    expect(await paste('token\n')).toBe(true);
    expect(await paste('begin\r\nend\n')).toBe(false);
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
    expect(await stored(id)).toEqual({ KEY: 'a\nbc', PEM: 'begin\nend\n' });
  });

  it('as a text stay as they are typed when the application changes otherwise', async () => {
    const { page } = browser;
    const id = await application('notes', { env: { A: '1', HALF: '2' } });
    await open(ofVariables(id), 'notes');
    await page.getByRole('button', { name: 'Text', exact: true }).click();
    const text = page.getByLabel('All variables, as a .env file has them');
    const typed = '# note\nHALF\nA=1\n';
    await text.fill(typed);
    const version = async (): Promise<string> => (await owner.get(`/applications/${id}`)).data.resource_version;
    const before = await version();
    const read = page.waitForResponse((answer) => answer.url().endsWith(`/applications/${id}/env`));
    expect((await owner.put(`/applications/${id}`, { drain_seconds: 7 })).status).toBe(200);
    expect(await version()).not.toBe(before);
    await (await read).finished();
    // what another person changes of the variables waits for the line to be whole
    const again = page.waitForResponse((answer) => answer.url().endsWith(`/applications/${id}/env`));
    expect((await owner.patch(`/applications/${id}/env`, { B: '3' })).status).toBe(200);
    await (await again).finished();
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
    expect(await text.inputValue()).toBe(typed);
    await text.fill('HALF=4\nA=1\n');
    await until('the other change is there', async () => (await text.inputValue()) === 'A=1\nB=3\nHALF=4\n');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
    expect(await stored(id)).toEqual({ A: '1', B: '3', HALF: '4' });
  });
});

it('a field that is edited as JSON shows what others have stored, and is cleared by an empty box', async () => {
  const { page } = browser;
  const check = (path: string): object => ({ healthcheck: { type: 'http', path } });
  const id = await application('checked', check('/healthz'));
  await open(`projects/${project}/production/applications/${id}/settings`, 'checked');
  await page.getByText('More', { exact: true }).click();
  const box = page.getByLabel('Healthcheck', { exact: true });
  expect(await box.inputValue()).toContain('/healthz');
  expect((await owner.put(`/applications/${id}`, check('/ready'))).status).toBe(200);
  await until('the box shows it', async () => (await box.inputValue()).includes('/ready'));
  await box.fill('{"type": "tcp"}');
  await page.getByRole('button', { name: 'Discard', exact: true }).click();
  await until('the box shows what is stored', async () => (await box.inputValue()).includes('/ready'));
  await box.fill('');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
  expect((await owner.get(`/applications/${id}`)).data.healthcheck).toBeNull();
});

it('a settings form sends what was entered alone, whatever others store meanwhile', async () => {
  const { page } = browser;
  const id = await application('settled', { replicas: 2 });
  await open(`projects/${project}/production/applications/${id}/settings`, 'settled');
  await page.getByLabel('Host name').fill('web');
  expect((await owner.put(`/applications/${id}`, { replicas: 3 })).status).toBe(200);
  await until(
    'the form shows it',
    async () => (await page.getByLabel('Instances', { exact: true }).inputValue()) === '3',
    { timeoutMs: 5000 },
  );
  const bodies = sent('PUT', `/applications/${id}`);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
  expect(bodies).toEqual([{ host_name: 'web' }]);
  expect((await owner.get(`/applications/${id}`)).data).toMatchObject({ replicas: 3, host_name: 'web' });
});

it('the key after g goes to a place, and does nothing to the object that is shown', async () => {
  const { page } = browser;
  const id = await application('kept-running');
  await open(`projects/${project}/production/applications/${id}`, 'kept-running');
  await page.getByRole('link', { name: 'Logs', exact: true }).last().click();
  await page.getByRole('log').waitFor();
  const deployments = sent('POST', '/deploy');
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  await page.getByRole('heading', { name: 'Databases', level: 1 }).waitFor();
  expect(deployments).toEqual([]);
  await page.goBack();
  await page.getByRole('log').waitFor();
  await page.keyboard.press('e');
  await page.getByRole('heading', { name: 'No variables' }).waitFor();
});

it('another role of the reader is taken up by the page that is open', async () => {
  const id = await application('guarded', { env: { KEY: 'sesame' } });
  const email = 'reader@example.test';
  const reader = await world.user('user', email);
  await owner.post(`/projects/${project}/members`, { user_id: reader.id, role: 'viewer' });
  const page = await browser.page.context().newPage();
  page.setDefaultTimeout(5000);
  await signIn(page, world.url, { email, password });
  await page.goto(`${world.url}/console#/default/projects/${project}/production/applications/${id}/environment`);
  await page.getByText('Your role sees the names of variables').waitFor();
  const isOff = (): Promise<string | null> =>
    page.getByRole('button', { name: 'Deploy', exact: true }).getAttribute('aria-disabled');
  await until('a viewer may not deploy', async () => (await isOff()) === 'true', { timeoutMs: 5000 });
  expect((await owner.put(`/projects/${project}/members/${reader.id}`, { role: 'member' })).status).toBe(200);
  await until('a member may', async () => (await isOff()) === null, { timeoutMs: 5000 });
  await page.getByRole('button', { name: 'Show the value of KEY' }).click();
  expect(await page.getByLabel('Value of KEY', { exact: true }).inputValue()).toBe('sesame');
  await page.close();
});

it('what was entered in settings or in a dialog is not lost by a link or by the key that goes back, unasked', async () => {
  const { page } = browser;
  const id = await made('/databases', 'orders', { type: 'postgres' });
  await open(`projects/${project}/production/databases/${id}/settings`, 'orders');
  const memory = page.getByLabel('Memory', { exact: true });
  await memory.fill('768m');
  stays = true;
  await page.getByRole('link', { name: 'Overview', exact: true }).click();
  await until('it was asked', async () => asked.length === 1, { timeoutMs: 5000 });
  expect(await memory.inputValue()).toBe('768m');
  stays = false;
  await page.getByRole('link', { name: 'Overview', exact: true }).click();
  await memory.waitFor({ state: 'detached' });
  expect(asked).toHaveLength(2);

  await page.goto(`${world.url}/console#/default/volumes`);
  await page.getByRole('button', { name: 'New volume' }).click();
  const name = page.getByRole('dialog', { name: 'New volume' }).getByLabel('Name', { exact: true });
  await name.fill('kept-open');
  stays = true;
  await page.evaluate('history.back()');
  await until('it was asked', async () => asked.length === 3, { timeoutMs: 5000 });
  expect(await name.inputValue()).toBe('kept-open');
});

describe('what another person has stored meanwhile is not overwritten, and is taken by Discard', () => {
  const meanwhile = /changed meanwhile|has changed the text meanwhile/;

  it('of the text of a template, also while that is read', async () => {
    const { page } = browser;
    const content = (image: string): string =>
      `apiVersion: setpoint/v1\nkind: Template\napplications:\n  - {name: web, image_url: ${image}}\n`;
    const { id } = (await owner.post('/templates', { name: 'notes', content: content('notes:1') })).data;
    await open(`templates/${id}`, 'notes');
    const held = Promise.withResolvers<void>();
    await page.route(`**/api/v1/templates/${id}`, async (route) => {
      if (route.request().method() === 'GET') await held.promise;
      await route.continue();
    });
    const theirs = { display_name: 'Theirs', content: content('notes:2') };
    expect((await owner.put(`/templates/${id}`, theirs)).status).toBe(200);
    await page.getByRole('heading', { name: 'Theirs', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Text', exact: true }).click();
    const text = page.getByLabel('Text', { exact: true });
    await text.fill(content('notes:3'));
    const save = page.getByRole('button', { name: 'Save', exact: true });
    await save.click();
    await page.getByRole('alert').waitFor();
    held.resolve();
    await page.getByText(meanwhile).waitFor();
    await page.unroute(`**/api/v1/templates/${id}`);
    await page.getByRole('button', { name: 'Discard', exact: true }).click();
    expect(await text.inputValue()).toBe(theirs.content);
    await text.fill(content('notes:4'));
    await save.click();
    await save.and(page.locator('[aria-disabled=true]')).waitFor();
    expect((await owner.get(`/templates/${id}`)).data.content).toBe(content('notes:4'));
  });

  it('of what the tenant keeps', async () => {
    const { page } = browser;
    const { id } = (await owner.post('/settings/ssh-keys', { name: 'deploy', generate: 'ed25519' })).data;
    await open('settings/ssh-keys', 'Settings');
    await page.getByRole('button', { name: 'Actions of deploy' }).click();
    await page.getByRole('menuitem', { name: 'Change', exact: true }).click();
    const drawer = page.getByRole('dialog', { name: 'Change deploy' });
    const description = drawer.getByLabel('Description');
    await description.fill('mine');
    expect((await owner.put(`/settings/ssh-keys/${id}`, { description: 'theirs' })).status).toBe(200);
    await drawer.getByText(meanwhile).waitFor();
    await drawer.getByRole('button', { name: 'Save', exact: true }).click();
    await drawer.getByRole('alert').waitFor();
    await drawer.getByRole('button', { name: 'Discard', exact: true }).click();
    expect(await description.inputValue()).toBe('theirs');
    await description.fill('both');
    await drawer.getByRole('button', { name: 'Save', exact: true }).click();
    await drawer.waitFor({ state: 'detached' });
    expect((await owner.get(`/settings/ssh-keys/${id}`)).data.description).toBe('both');
  });

  it.each([
    ['of the settings of a server', () => [`servers/${server}/settings`, `/servers/${server}`, 'one'] as const],
    ['of the settings of the tenant', () => ['settings', '/settings', 'Settings'] as const],
  ])('%s', async (_, place) => {
    const { page } = browser;
    const [address, path, heading] = place();
    const isTenant = path === '/settings';
    await open(address, heading);
    const field = page.getByLabel(isTenant ? 'Registries that images may come from' : 'Days that logs are kept');
    await field.fill(isTenant ? 'ghcr.io' : '20');
    const theirs = isTenant ? { server_terminals: 'superadmins' } : { labels: { by: 'them' } };
    expect((await owner.put(path, theirs)).status).toBe(200);
    const bar = page.getByRole('region', { name: 'Unsaved changes' });
    await bar.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText(meanwhile).waitFor();
    await bar.getByText('1 changed').waitFor();
    await bar.getByRole('button', { name: 'Discard', exact: true }).click();
    await bar.waitFor({ state: 'detached' });
    await field.fill(isTenant ? 'quay.io' : '30');
    await bar.getByRole('button', { name: 'Save', exact: true }).click();
    await bar.waitFor({ state: 'detached' });
    const mine = isTenant ? { registries: ['quay.io'] } : { log_retention_days: 30 };
    expect((await owner.get(path)).data).toMatchObject({ ...theirs, ...mine });
    if (isTenant) await owner.put(path, { registries: [] });
  });
});

it('a schedule that another person has changed meanwhile is not overwritten', async () => {
  const { page } = browser;
  const bucket = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  const keys = { access_key: 'AKIDOFTHETEST', secret_key: 'sesame' };
  await owner.post('/settings/backup-destinations', { name: 'nightly', ...bucket, ...keys });
  const volume_id = await made('/volumes', 'kept');
  const of = { volume_id, cron_expression: '0 3 * * *', retention_count: 7 };
  const { id } = (await owner.post('/backup-schedules', of)).data;
  await open('backups/schedules', 'Backups');
  const table = page.getByRole('table', { name: 'Backup schedules' });
  const drawer = page.getByRole('dialog', { name: 'Schedule of kept' });
  const change = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Actions of the schedule of kept' }).click();
    await page.getByRole('menuitem', { name: 'Change', exact: true }).click();
    await drawer.getByLabel('When').fill('0 4 * * *');
  };
  await change();
  await owner.put(`/backup-schedules/${id}`, { retention_count: 90 });
  await table.locator('td', { hasText: '90' }).waitFor();
  await drawer.getByRole('button', { name: 'Save schedule' }).click();
  await drawer.getByRole('alert').waitFor();
  const stored = async (): Promise<object> => (await owner.get(`/backup-schedules/${id}`)).data;
  expect(await stored()).toMatchObject({ retention_count: 90, cron_expression: '0 3 * * *' });
  await drawer.getByRole('button', { name: 'Cancel' }).click();
  await change();
  const bodies = sent('PUT', `/backup-schedules/${id}`);
  await drawer.getByRole('button', { name: 'Save schedule' }).click();
  await drawer.waitFor({ state: 'detached' });
  expect(bodies).toEqual([{ cron_expression: '0 4 * * *' }]);
  expect(await stored()).toMatchObject({ retention_count: 90, cron_expression: '0 4 * * *' });
});

describe('a new application', () => {
  it('with a port that is no number is refused at its field', async () => {
    const { page } = browser;
    await open(`projects/${project}/-/new?source=image`, 'New application');
    await page.getByRole('textbox', { name: 'Image' }).fill('web:1');
    await page.getByLabel('Name', { exact: true }).fill('typo');
    await page.getByLabel('Port').fill('8080/tcp');
    await page.getByRole('button', { name: 'Create and deploy' }).click();
    await until(
      'the field says what is wrong',
      async () => (await page.getByLabel('Port').getAttribute('aria-invalid')) === 'true',
    );
    expect((await owner.get('/applications?q=typo')).data).toEqual([]);
  });

  it('that could not be deployed is shown all the same, with the reason', async () => {
    const { page } = browser;
    await open(`projects/${project}/-/new?source=image`, 'New application');
    await page.getByRole('textbox', { name: 'Image' }).fill('web:1');
    await page.getByLabel('Name', { exact: true }).fill('late');
    const error = { code: 'TOO_MANY_REQUESTS', message: 'Too many deployments: try again in a minute', details: [] };
    await page.route('**/deploy', (route) => route.fulfill({ status: 429, json: { success: false, error } }));
    await page.getByRole('button', { name: 'Create and deploy' }).click();
    await page.getByRole('heading', { name: 'late', level: 1 }).waitFor();
    await page.getByText('Too many deployments').first().waitFor();
    await page.unroute('**/deploy');
  });
});

it('a volume is taken from what was shown, and from nothing that mounts it since', async () => {
  const { page } = browser;
  const volume = await made('/volumes', 'shared');
  await world.observe('volume', volume, { phase: 'available' });
  const [first, second] = [await application('first'), await application('second')];
  const mount = (workload_id: string): object => ({ workload_type: 'application', workload_id, mount_path: '/data' });
  expect((await owner.post(`/volumes/${volume}/bind`, mount(first))).status).toBe(200);
  await open('volumes', 'Volumes');
  await page.getByRole('button', { name: 'Actions of shared' }).click();
  await page.getByRole('menuitem', { name: 'Unmount', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Unmount shared' });
  await dialog.getByText('/data in first').waitFor();
  const bodies = sent('POST', `/volumes/${volume}/unbind`);
  // it is moved between the click and the request
  await page.route('**/unbind', async (route) => {
    expect((await owner.post(`/volumes/${volume}/unbind`, {})).status).toBe(200);
    expect((await owner.post(`/volumes/${volume}/bind`, mount(second))).status).toBe(200);
    await route.continue();
  });
  await dialog.getByRole('button', { name: 'Unmount it' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.unroute('**/unbind');
  expect(bodies).toEqual([{ workload_id: first }]);
  expect((await owner.get(`/volumes/${volume}`)).data.bindings).toMatchObject([{ workload_id: second }]);
});

describe('when the session ends', () => {
  const cover = () => browser.page.getByRole('dialog', { name: 'Sign in' });
  const endSession = async (): Promise<void> => {
    const sessions: { id: string; current: boolean }[] = (await owner.get('/auth/sessions')).data;
    for (const { id, current } of sessions) if (!current) await owner.delete(`/auth/sessions/${id}`);
    await cover().getByText('The session has ended').waitFor();
    expect(await browser.page.evaluate('sessionStorage.length')).toBe(0);
  };

  it('what was entered is kept for the same user, and for no other one', async () => {
    const { page } = browser;
    const id = await application('overnight', { env: { A: '1' } });
    await open(`projects/${project}/production/applications/${id}/environment`, 'overnight');
    await page.getByLabel('Name of the new variable').fill('B');
    await page.getByLabel('Value of the new variable').fill('2');
    await endSession();
    const whenClosed = `document.querySelector('dialog.entry-cover').close();
      document.querySelector('#main').checkVisibility({ visibilityProperty: true })`;
    expect(await page.evaluate(whenClosed)).toBe(false);
    // busy at that moment
    const error = { code: 'SERVICE_UNAVAILABLE', message: 'The store has no leader', details: [] };
    await page.route('**/auth/me', (route) => route.fulfill({ status: 503, json: { success: false, error } }), {
      times: 1,
    });
    await cover().getByLabel('Password').fill(password);
    await cover().getByRole('button', { name: 'Sign in', exact: true }).click();
    await cover().waitFor({ state: 'detached' });
    await page.locator(':focus').and(page.getByLabel('Value of the new variable')).waitFor();
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual({ A: '1', B: '2' });
    // it follows changes again
    await owner.patch(`/applications/${id}/env`, { C: '3' });
    await page.getByLabel('Value of C', { exact: true }).waitFor();

    await page.getByLabel('Name of the new variable').fill('D');
    await endSession();
    const email = 'stranger@example.test';
    await world.user('user', email);
    await cover().getByLabel('E-mail').fill(email);
    await cover().getByLabel('Password').fill(password);
    await cover().getByRole('button', { name: 'Sign in', exact: true }).click();
    await cover().waitFor({ state: 'detached' });
    await page.getByRole('heading', { name: 'overnight', level: 1 }).waitFor({ state: 'detached' });
    expect(asked).toEqual([]);
  });
});
