import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { templateInstanceController } from '../../controllers/template-instance/reconcile.ts';
import { commit } from '../../store/unit.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { violationsOf } from '../harness/axe.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { leaveLook, looks, pixelsBeyond, signIn, takeLook } from '../harness/console-page.ts';
import { lead } from '../harness/leading.ts';
import { agentIsThere } from '../harness/running-instance.ts';
import { desiredState, ofDatabase } from '../harness/states.ts';

const unlimited = { perMinute: 0, burst: 1 };
const [earliest, latest] = ['2026-01-01T00:00:00.000Z', '2026-01-03T00:00:00.000Z'];
const segment = (n: number): string => `00000001000000000000000${n}`;
const ready = { type: 'Ready', status: 'true', reason: 'Running', message: 'It answers queries' } as const;

const content = [
  'apiVersion: setpoint/v1',
  'kind: Template',
  'metadata: {name: notes, description: Keeps notes, tags: [content]}',
  'variables:',
  '  - {name: TITLE, type: string}',
  '  - {name: SECRET, type: secret, generate: true}',
  'volumes: [{name: files}]',
  'databases: [{name: db, type: redis}]',
  'applications:',
  '  - name: web',
  '    image_url: web:1',
  '    exposed_port: 8080',
  '    env: {DATABASE_URL: "${databases.db.url}", TITLE: "${TITLE}", SECRET: "${SECRET}"}',
  '    volumes: [{volume: files, path: /files}]',
].join('\n');

const running = new AsyncDisposableStack();
let world: ApiWorld;
let owner: Client;
let browser: TestPage;
let project: string;
let server: string;
let destination: string;
/** A database that runs, has an archive, a schedule and backups. */
let orders: string;
/** A good dump of it. */
let dump: string;
let volume: string;
let template: string;

beforeAll(async () => {
  world = running.use(await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } }));
  running.use(
    await lead(
      world,
      world.clock,
      templateInstanceController({ buildDeadlineMs: 60_000, ownPorts: [], runtimeImages: {}, secrets: world.keyring }),
    ),
  );
  [owner, browser] = await Promise.all([world.owner(), openPage()]);
  running.use(browser);
  browser.page.setDefaultTimeout(5_000);
  // the first page makes the bundle, as other servers do beside it
  browser.page.setDefaultNavigationTimeout(30_000);
  // a test that failed leaves what it entered
  browser.page.on('dialog', (dialog) => void dialog.accept());
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  project = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data.id;
  const bucket = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  const keys = { access_key: 'AKIDOFTHETEST', secret_key: 'sesame' };
  destination = (await owner.post('/settings/backup-destinations', { name: 'nightly', ...bucket, ...keys })).data.id;
  orders = await archived('orders');
  dump = await backedUp(`/databases/${orders}/backups`);
  await owner.post('/backup-schedules', { database_id: orders, cron_expression: '30 3 * * *' });
  volume = (await owner.post('/volumes', { project_id: project, name: 'files' })).data.id;
  await world.observe('volume', volume, { phase: 'available' });
  await backedUp(`/volumes/${volume}/backup`);
  template = (await owner.post('/templates', { content })).data.id;
  await signIn(browser.page, world.url, { email: 'owner@example.test', password });
});
afterAll(async () => {
  await running.disposeAsync();
  expect(world.faults).toEqual([]);
});

beforeEach(({ onTestFailed }) => {
  onTestFailed(async () => console.error((await browser.page.locator('body').innerText()).slice(0, 2000)));
});

async function database(name: string, fields: object = {}): Promise<string> {
  const { data } = await owner.post('/databases', { project_id: project, name, type: 'postgres', ...fields });
  await world.observe('database', data.id, { phase: 'running', initialised: true }, [ready]);
  return data.id;
}

async function backedUp(path: string): Promise<string> {
  const { data } = await owner.post(path, {});
  const at = world.clock.now().toISOString();
  const of = { started_at: at, finished_at: at, verified_at: at, size_bytes: 3_145_728, dump_bytes: 9_000_000 };
  await world.observe('backup', data.id, { phase: 'completed', ...of, checksum_sha256: 'ab'.repeat(32) });
  return data.id;
}

/** A database with an archive and a base backup, as their controllers would have made them. */
async function archived(name: string): Promise<string> {
  const id = await database(name, { backup_mode: 'pitr' });
  const { archive, environment_id = '', server_id = '' } = (await world.repo.get('database', id))?.desired ?? {};
  const archiveId = archive?.id ?? '';
  const of = { project_id: project, place: { environment_id, server_id }, destination_id: destination };
  const base = randomUUID();
  const unit = world.repo.begin();
  unit.create('wal_archive', archiveId, desiredState('wal_archive', { ...of, database_id: id }));
  const how = { of: ofDatabase(id), method: 'physical' as const, archive_id: archiveId };
  unit.create('backup', base, desiredState('backup', { ...of, ...how }));
  await commit(unit);
  const shown = { until: latest, until_segment: segment(9), last_segment: segment(9), sent_at: latest };
  await world.observe('wal_archive', archiveId, { phase: 'archiving', gaps: [], ...shown });
  const log = { first_segment: segment(2), last_segment: segment(3), stopped_at: earliest };
  await world.observe('backup', base, { phase: 'completed', log });
  return id;
}

async function open(path: string, heading: string): Promise<void> {
  await browser.page.goto(`${world.url}/console#/default/${path}`);
  await browser.page.getByRole('heading', { name: heading, level: 1 }).waitFor();
}

const heading = (name: string) => browser.page.getByRole('heading', { name, level: 1 }).waitFor();

/** Each page, its heading, and a text that is there once it has been read. */
const places = (): [path: string, heading: string, read: string][] => [
  ['databases', 'Databases', 'PostgreSQL 17'],
  [`databases/${orders}`, 'orders', 'It answers queries'],
  [`databases/${orders}/backups`, 'orders', 'base backup'],
  [`databases/${orders}/restore`, 'orders', 'Touched now: nothing'],
  [`databases/${orders}/settings`, 'orders', 'Reached from outside'],
  [`databases/${orders}/events`, 'orders', 'Events, backups, restores and changes'],
  [`databases/${orders}/terminal`, 'orders', 'No session'],
  [`projects/${project}/-/apply`, 'shop', 'What is to be there'],
  [`projects/${project}/-/new-database`, 'New database', 'Show as curl'],
  ['backups', 'Backups', 'The last 30 days'],
  ['backups/schedules', 'Backups', 'Every day at 03:30'],
  ['backups/restores', 'Backups', 'No restore yet'],
  ['volumes', 'Volumes', 'files'],
  ['templates', 'Templates', 'Keeps notes'],
  ['templates/-/new', 'New template', 'Begin with an example'],
  [`templates/${template}`, 'notes', 'in 3 waves'],
  [`templates/${template}/use`, 'notes', 'What it makes'],
  [`templates/${template}/text`, 'notes', 'Makes 1 volume'],
  [`templates/${template}/instances`, 'notes', 'No instance that you see'],
  ['instances', 'Templates', 'No instance yet'],
];

for (const { turn, tags } of looks)
  it(`shows each page without a violation of accessibility, ${turn}`, { tags }, async () => {
    const { page, complaints } = browser;
    const faults: string[] = [];
    for (const [at, [path, title, read]] of places().entries()) {
      const narrow = await takeLook(page, turn, at);
      await open(path, title);
      await page.getByRole('main').getByText(read).first().waitFor();
      faults.push(...(await violationsOf(page)).map((fault) => `${path}: ${fault}`));
      if (narrow) expect(await pixelsBeyond(page), path).toBe(0);
    }
    await leaveLook(page);
    expect(faults).toEqual([]);
    expect(complaints).toEqual([]);
  });

describe('a database', () => {
  it('is made in a project with a version and a parameter, and stands in its column', async () => {
    const { page } = browser;
    await open(`projects/${project}/-/new-database`, 'New database');
    await page.getByLabel('Name', { exact: true }).fill('cache');
    const pooling = page.getByRole('checkbox', { name: /Pool connections/ });
    await pooling.check();
    await page.getByRole('radio', { name: 'Redis' }).check();
    expect(await pooling.count()).toBe(0);
    expect(await page.getByRole('checkbox', { name: /Require TLS/ }).count()).toBe(0);
    await page.getByLabel('Version').selectOption('7');
    await page.getByLabel('Parameters').selectOption('maxclients');
    await page.getByRole('button', { name: 'Add', exact: true }).first().click();
    await page.getByLabel('Value of maxclients').fill('50');
    await page.getByRole('button', { name: 'Create database' }).click();
    await heading('cache');
    const [made] = (await owner.get('/databases?q=cache')).data;
    expect(made).toMatchObject({ type: 'redis', version: '7', parameters: { maxclients: '50' } });
    await open(`projects/${project}`, 'shop');
    await page.getByRole('link', { name: 'cache' }).click();
    await heading('cache');
  });

  it('shows its credentials once they are asked for, for each language and from where it is reached', async () => {
    const { page } = browser;
    await open(`databases/${orders}`, 'orders');
    const card = page.getByRole('region', { name: 'Connect' });
    expect(await card.getByRole('button', { name: 'Copy password' }).count()).toBe(0);
    await card.getByRole('button', { name: 'Reveal credentials' }).click();
    const { password: secret, internal_connection_string: url } = (await owner.get(`/databases/${orders}/credentials`))
      .data;
    await card.getByText(secret, { exact: true }).waitFor();
    expect(await card.locator('pre').innerText()).toContain(url);
    await card.getByRole('button', { name: 'JDBC' }).click();
    expect(await card.locator('pre').innerText()).toContain('jdbc:postgresql://');
    await card.getByRole('button', { name: 'Outside' }).click();
    await card.getByText('setpoint db connect orders').waitFor();
    await card.getByRole('button', { name: 'Hide credentials' }).click();
    expect(await card.getByText(secret, { exact: true }).count()).toBe(0);
    await owner.put(`/databases/${orders}`, { connection_pooling: true });
    await card.getByText('${databases.orders.pooled_url}').waitFor();
    await card.getByRole('button', { name: 'Reveal credentials' }).click();
    await card.getByRole('button', { name: 'Inside, pooled' }).click();
    expect(await card.locator('pre').innerText()).toContain('-pooler:6432/app');
    await owner.put(`/databases/${orders}`, { connection_pooling: false });
    await world.repo.change('database', orders, (draft) => {
      const key = { $sealed: 'sealed', for: 'database' };
      const until = '2032-01-01T00:00:00.000Z';
      draft.tls = { revision: 1, certificate: '', authority: 'of the authority', key, names: [], expires_at: until };
    });
    await card.getByRole('button', { name: 'Hide credentials' }).click();
    await card.getByRole('button', { name: 'Reveal credentials' }).click();
    await card.getByText('of the authority', { exact: true }).waitFor();
    await card.getByRole('button', { name: 'Copy the certificate' }).waitFor();
  });

  it('is stopped and started, gets another password, and says why it cannot be restarted', async () => {
    const { page } = browser;
    const id = await database('ledger');
    await open(`databases/${id}`, 'ledger');
    const actions = page.getByRole('group', { name: 'Actions of ledger' });
    await actions.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Change its password' }).click();
    await page.getByRole('button', { name: 'Change it' }).click();
    const told = page.getByRole('dialog', { name: 'The password of ledger is being changed' });
    await told.getByText('No variable of an application or a function refers to it').waitFor();
    await told.getByRole('button', { name: 'Done' }).click();
    await actions.getByRole('button', { name: 'Stop' }).click();
    await actions.getByRole('button', { name: 'Start', exact: true }).waitFor();
    const restart = actions.getByRole('button', { name: 'Restart' });
    expect(await restart.getAttribute('aria-disabled')).toBe('true');
    await actions.getByRole('button', { name: 'Start', exact: true }).click();
    await actions.getByRole('button', { name: 'Back up now' }).waitFor();
    expect((await owner.get(`/databases/${id}`)).data.run).toBe('running');
  });

  it('has its settings changed after the difference and what follows were shown', async () => {
    const { page } = browser;
    await open(`databases/${orders}/settings`, 'orders');
    await page.getByLabel('Memory').fill('1g');
    const bar = page.getByRole('region', { name: 'Unsaved changes' });
    await bar.getByText('the database starts anew on the same data').waitFor();
    await bar.getByRole('button', { name: 'Save' }).click();
    await bar.waitFor({ state: 'detached' });
    expect((await owner.get(`/databases/${orders}`)).data.memory_limit).toBe('1g');
  });

  it('goes once its name was typed, and says that its backups stay', async () => {
    const { page } = browser;
    const id = await database('going');
    await backedUp(`/databases/${id}/backups`);
    await open(`databases/${id}`, 'going');
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete going' });
    await dialog.getByText('Its one good backup').waitFor();
    const button = dialog.getByRole('button', { name: 'Delete going' });
    expect(await button.getAttribute('aria-disabled')).toBe('true');
    await dialog.getByLabel('Type going to confirm').fill('going');
    await button.click();
    await page.getByRole('main').getByText('Being deleted').first().waitFor();
  });
});

describe('a restore', () => {
  it('to an instant is picked on the bar by keys, makes a copy beside, and switches on a decision alone', async () => {
    const { page } = browser;
    const id = await archived('ledger-of-old');
    await open(`databases/${id}/restore`, 'ledger-of-old');
    const bar = page.getByRole('slider', { name: 'Instant to go back to' });
    await bar.focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('PageUp');
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('ArrowRight');
    expect(await bar.getAttribute('aria-valuenow')).toBe(String(Date.parse('2026-01-01T23:01:00Z')));
    await page.getByRole('button', { name: 'Next: into what' }).click();
    await page.getByRole('button', { name: 'Next: look at it' }).click();
    await page.getByText('only your decision switches to it').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole('button', { name: 'Make the copy' }).click();
    await page.getByText('Restore under way').waitFor();
    const [made] = (await owner.get('/restores?q=ledger-of-old')).data;
    expect(made.target_time).toBe('2026-01-01T23:01:00.000Z');
    await world.observe('restore', made.id, { phase: 'ready_to_switch' });
    await page.getByRole('button', { name: 'Serve what was recovered' }).click();
    const dialog = page.getByRole('dialog', { name: 'Let ledger-of-old serve what was recovered' });
    await dialog.getByText('the way back').waitFor();
    await dialog.getByLabel('Type ledger-of-old to confirm').fill('ledger-of-old');
    await dialog.getByRole('button', { name: 'Switch ledger-of-old' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await world.repo.get('restore', made.id))?.desired.switch_requested).toBe(true);
    await world.observe('restore', made.id, { phase: 'completed' });
    await page.getByRole('table', { name: 'Restores' }).getByText('Done').waitFor();
  });

  it('of a backup into a new database touches nothing, and shows its steps on a page of its own', async () => {
    const { page } = browser;
    await open(`databases/${orders}/restore?backup=${dump}`, 'orders');
    await page.getByRole('radio', { name: /Into a new database/ }).check();
    await page.getByLabel('Name of the new database').fill('orders-before');
    await page.getByRole('button', { name: 'Next: look at it' }).click();
    await page.getByText('Nothing of orders is touched, now or later').waitFor();
    await page.getByRole('button', { name: 'Make orders-before' }).click();
    await heading('Restore of orders-before');
    const [made] = (await owner.get('/restores?q=orders-before')).data;
    await world.observe('restore', made.id, { phase: 'restoring' });
    const steps = page.getByRole('list', { name: 'Steps of the restore' });
    await steps.getByRole('listitem').filter({ hasText: 'Copy' }).getByText('is running').waitFor();
    await page.getByText('the new volume alone').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole('button', { name: 'Cancel the restore' }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel the restore of orders-before' });
    await dialog.getByRole('button', { name: 'Cancel the restore' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await world.repo.get('restore', made.id))?.desired.cancel_requested).toBe(true);
  });

  it('of a volume is asked for from its backups, in place and as a new one', async () => {
    const { page } = browser;
    await open('volumes?q=files', 'Volumes');
    await page.getByRole('button', { name: 'Actions of files' }).click();
    await page.getByRole('menuitem', { name: 'Backups and restores' }).click();
    const list = page.getByRole('dialog', { name: 'Backups of files' });
    await list.getByRole('button', { name: 'Actions of the backup of files' }).click();
    await page.getByRole('menuitem', { name: 'Restore as a new volume' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore files as a new volume' });
    await dialog.getByText('is not touched').waitFor();
    await dialog.getByRole('button', { name: 'Make the volume' }).click();
    await heading('Restore of files-before');
    expect((await owner.get('/volumes?q=files-before')).data).toHaveLength(1);
  });
});

describe('backups', () => {
  it('are made by a schedule, whose next times are shown, and which is paused', async () => {
    const { page } = browser;
    const id = await database('planned');
    await open(`databases/${id}/backups`, 'planned');
    await page.getByRole('button', { name: 'New schedule' }).click();
    const drawer = page.getByRole('dialog', { name: 'New backup schedule' });
    await drawer.getByLabel('When').fill('0 3 31 2 *');
    await drawer.getByText('This never fires').first().waitFor();
    await drawer.getByLabel('When').fill('15 4 * * *');
    await drawer.getByText('Every day at 04:15').waitFor();
    await drawer.getByLabel('Good backups that are kept').fill('14');
    await drawer.getByRole('button', { name: 'Create schedule' }).click();
    const table = page.getByRole('table', { name: 'Backup schedules' });
    await table.getByText('Every day at 04:15').waitFor();
    await table.getByRole('button', { name: 'Actions of the schedule of planned' }).click();
    await page.getByRole('menuitem', { name: 'Pause' }).click();
    await table.getByText('Paused').waitFor();
    const all = (await owner.get('/backup-schedules')).data as { name: string }[];
    expect(all.find(({ name }) => name === 'planned')).toMatchObject({ retention_count: 14, is_paused: true });
  });

  it('have their checks told, are kept for good, and are deleted by the name of what they are of', async () => {
    const { page } = browser;
    const id = await database('kept');
    const backup = await backedUp(`/databases/${id}/backups`);
    await open('backups?q=kept', 'Backups');
    const row = page.getByRole('table', { name: 'Backups' }).getByRole('row').nth(1);
    await row.getByRole('button', { name: /Actions/ }).click();
    await page.getByRole('menuitem', { name: 'Details and checks' }).click();
    const drawer = page.getByRole('dialog', { name: 'Backup of kept' });
    await drawer.getByRole('list', { name: 'Checks' }).getByText('the end of its format was seen').waitFor();
    await drawer.getByText('It was never restored').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await drawer.getByRole('button', { name: 'Close' }).click();
    await row.getByRole('button', { name: /Actions/ }).click();
    await page.getByRole('menuitem', { name: 'Keep it for good' }).click();
    await row.getByText('pinned').waitFor();
    await row.getByRole('button', { name: /Actions/ }).click();
    await page.getByRole('menuitem', { name: 'Delete', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete a backup of kept' });
    await dialog.getByLabel('Type kept to confirm').fill('kept');
    await dialog.getByRole('button', { name: 'Delete the backup' }).click();
    await row.getByText('Being deleted').waitFor();
    expect((await owner.get(`/backups/${backup}`)).data.status).toBe('deleting');
  });
});

describe('a template', () => {
  it('is made of a compose file, with an account of each key', async () => {
    const { page } = browser;
    await open('templates/-/new?from=compose', 'New template');
    await page.getByLabel('Name of the template').fill('blog');
    await page
      .getByRole('textbox', { name: 'Compose file' })
      .fill('services:\n  web:\n    image: ghost:5\n    privileged: true\n    ports: ["2368:2368"]\n');
    await page.getByRole('button', { name: 'Convert' }).click();
    const account = page.getByRole('table', { name: 'Keys of the compose file' });
    await account.getByRole('row').filter({ hasText: 'privileged' }).getByText('left out').waitFor();
    await page.getByText('Makes 1 application, in 1 wave').waitFor();
    await page.getByRole('button', { name: 'Create template' }).click();
    await heading('blog');
  });

  it('is found by tag, refuses a missing value at its field, and makes an instance wave by wave', async () => {
    const { page } = browser;
    await open('templates', 'Templates');
    await page.getByRole('group', { name: 'Tags' }).getByRole('button', { name: 'content' }).click();
    await page.getByRole('link', { name: 'Use notes' }).click();
    await heading('notes');
    const form = page.getByRole('form', { name: 'Make notes' });
    await form.getByRole('button', { name: 'Create' }).click();
    await form.getByText('TITLE needs a value').waitFor();
    await form.getByLabel('Title').fill('Mine');
    await form.getByLabel(/^Name/).fill('diary');
    await form.getByRole('button', { name: 'Create' }).click();
    await heading('diary');
    const made = page.getByRole('table', { name: 'What it made' });
    await made.getByRole('row').filter({ hasText: 'diary-files' }).getByText('Coming up').waitFor();
    await made.getByRole('row').filter({ hasText: 'diary-web' }).getByText('Waiting').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    const [instance] = (await owner.get('/template-instances?q=diary')).data;
    const files = (instance.children as { key: string; id: string }[]).find(({ key }) => key === 'files')?.id ?? '';
    await world.observe('volume', files, { phase: 'available' });
    await page
      .getByRole('list', { name: 'Waves' })
      .getByRole('listitem')
      .filter({ hasText: 'Wave 1' })
      .getByText('is done')
      .waitFor();
    await made.getByRole('row').filter({ hasText: 'diary-db' }).getByText('Coming up').waitFor();
  });

  it('brings an instance to other values once their plan was looked at, and back, and says what becomes of drift', async () => {
    const { page } = browser;
    const [{ id }] = (await owner.get('/template-instances?q=diary')).data;
    await open(`instances/${id}/change`, 'diary');
    await page.getByRole('button', { name: 'Change Title' }).click();
    await page.getByLabel('Title').fill('Yours');
    await page.getByRole('button', { name: 'Show the plan' }).click();
    const steps = page.getByRole('list', { name: 'Steps of the plan' });
    await steps.getByRole('listitem').filter({ hasText: 'diary-web' }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole('button', { name: 'Change diary' }).click();
    await page.getByRole('list', { name: 'Waves' }).waitFor();
    expect((await owner.get(`/template-instances/${id}`)).data.revision).toBe(2);

    await page.getByRole('link', { name: 'Revisions' }).click();
    await page.getByRole('button', { name: 'Return to #1' }).click();
    const dialog = page.getByRole('dialog', { name: 'Return diary to revision 1' });
    await dialog.getByRole('list', { name: 'Steps of the plan' }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Return to #1' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await owner.get(`/template-instances/${id}`)).data.revision).toBe(3);

    await page.getByRole('link', { name: 'Changed by hand' }).click();
    await page.getByText('every field that its text declares has the declared value').waitFor();
    await page.getByRole('radio', { name: /Write it back/ }).check();
    await page.getByRole('button', { name: 'Save' }).click();
    await expect.poll(async () => (await owner.get(`/template-instances/${id}`)).data.drift).toBe('correct');
    expect(await violationsOf(page)).toEqual([]);
  });

  it('leaves the data of an instance behind unless one says otherwise', async () => {
    const { page } = browser;
    const [instance] = (await owner.get('/template-instances?q=diary')).data;
    await open(`instances/${instance.id}`, 'diary');
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete instance diary' });
    await dialog.getByText('Volume diary-files with its data').waitFor();
    await dialog.getByLabel(/Keep volumes and databases/).uncheck();
    await dialog.getByLabel('Type diary to confirm').waitFor();
    await dialog.getByLabel(/Keep volumes and databases/).check();
    await dialog.getByRole('button', { name: 'Delete diary' }).click();
    await page.getByText('Instance diary was deleted').waitFor();
    expect((await owner.get('/volumes?q=diary-files')).data).toMatchObject([{ status: 'available' }]);
  });
});

it('applies a text to a project after its plan, asks about data that is lost, and exports what is there', async () => {
  const { page } = browser;
  await database('spare', { type: 'redis' });
  await open(`projects/${project}/-/apply`, 'shop');
  const text = page.getByRole('textbox', { name: 'What is to be there' });
  const declared = (kind: string, name: string, spec = '') =>
    `apiVersion: setpoint/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: {${spec}}`;
  await text.fill('kind: Cloud');
  const ask = page.getByRole('button', { name: 'Show the plan' });
  await ask.click();
  await page.getByRole('alert').first().waitFor();
  await page.getByLabel('Files').setInputFiles([
    { name: 'b.yaml', mimeType: 'text/yaml', buffer: Buffer.from(declared('Database', 'spare', 'type: mysql')) },
    { name: 'a.yaml', mimeType: 'text/yaml', buffer: Buffer.from(declared('Volume', 'uploads')) },
  ]);
  await expect.poll(() => text.inputValue()).toContain('---');
  await ask.click();
  const steps = page.getByRole('list', { name: 'Steps of the plan' }).getByRole('listitem');
  await steps.filter({ hasText: 'spare' }).getByText('replaced', { exact: true }).waitFor();
  const apply = page.getByRole('button', { name: 'Apply', exact: true });
  expect(await apply.getAttribute('aria-disabled')).toBe('true');
  await steps.getByRole('checkbox').check();
  expect(await apply.getAttribute('aria-disabled')).toBeNull();
  expect(await violationsOf(page)).toEqual([]);

  await text.fill(declared('Volume', 'uploads'));
  await ask.click();
  await steps.filter({ hasText: 'uploads' }).getByText('new', { exact: true }).waitFor();
  await apply.click();
  await page.getByRole('status').getByText('Applied: 1 new').waitFor();
  expect((await owner.get('/volumes?q=uploads')).data).toHaveLength(1);
  await page.getByRole('button', { name: 'Take it into the field' }).click();
  await expect.poll(() => text.inputValue()).toContain('kind: Database');
  await ask.click();
  await page.getByText('Nothing would change').first().waitFor();
});

it('imports a dump into a database, by its address and by a file that is sent', async () => {
  const { page } = browser;
  let bytes = 0;
  world.agents.uploaded = async function* (_, incoming) {
    for await (const chunk of incoming) bytes += chunk.length;
    yield* [];
  };
  await agentIsThere(world.store, { server });
  await world.settled();
  const imports = async (name: string, choose: () => Promise<void>) => {
    const id = await database(name);
    await open(`databases/${id}/restore?from=dump`, name);
    await choose();
    await page.getByRole('button', { name: `Import a dump into ${name}` }).click();
    const dialog = page.getByRole('dialog', { name: `Import a dump into ${name}` });
    await dialog.getByLabel(`Type ${name} to confirm`).fill(name);
    await dialog.getByRole('button', { name: `Import into ${name}` }).click();
    await page.getByText('Restore under way').waitFor();
    return (await owner.get(`/restores?q=${name}`)).data[0].source;
  };
  const fetched = await imports('fetched', async () => {
    await page.getByRole('radio', { name: /At an address/ }).check();
    await page.getByLabel('Address', { exact: true }).fill('https://dumps.example.test/orders.dump');
    expect(await violationsOf(page)).toEqual([]);
  });
  expect(fetched).toMatchObject({ kind: 'url', url: 'https://dumps.example.test/orders.dump' });
  const dumped = 'SELECT 1;\n'.repeat(1000);
  const sent = await imports('sent', () =>
    page.getByLabel('File', { exact: true }).setInputFiles({
      name: 'orders.sql',
      mimeType: 'application/sql',
      buffer: Buffer.from(dumped),
    }),
  );
  expect([sent.kind, sent.size_bytes, bytes]).toEqual(['upload', dumped.length, dumped.length]);
});

it('shows older deployments on demand, and goes back to one where the newest all failed', async () => {
  const { page } = browser;
  const { data: late } = await owner.post('/projects', { name: 'late', default_server_id: server });
  const place = { project_id: late.id, server_id: server, environment_id: late.default_environment_id };
  const application = randomUUID();
  const unit = world.repo.begin();
  unit.create('application', application, desiredState('application', { ...place, name: 'late', internal_id: 'late' }));
  await commit(unit);
  const ids = Array.from({ length: 22 }, () => randomUUID());
  for (const [at, id] of ids.entries()) {
    const of = { ...place, application_id: application, number: at + 1 };
    await world.create('deployment', id, desiredState('deployment', of));
    await world.observe('deployment', id, { phase: at === 0 ? 'succeeded' : 'failed' });
  }
  await world.settled();
  await open(`applications/${application}/deployments`, 'late');
  const table = page.getByRole('table', { name: 'Deployments' });
  await table.getByRole('link', { name: 'Deployment 22' }).waitFor();
  await page.getByRole('group', { name: 'Actions of late' }).getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Roll back' }).first().click();
  await page.getByRole('dialog', { name: 'Roll back late to #1' }).getByRole('button', { name: 'Cancel' }).click();
  expect(await table.getByRole('link', { name: 'Deployment 1', exact: true }).count()).toBe(0);
  await page.getByRole('button', { name: 'Older ones' }).click();
  await table.getByRole('link', { name: 'Deployment 1', exact: true }).waitFor();
  expect(await page.getByRole('button', { name: 'Older ones' }).count()).toBe(0);
});

it('shows a project of 150 applications by the cards that are seen, each at its place under the pointer', async () => {
  const { page } = browser;
  const { data: crowd } = await owner.post('/projects', { name: 'crowd', default_server_id: server });
  const place = { project_id: crowd.id, environment_id: crowd.default_environment_id, server_id: server };
  const names = Array.from({ length: 150 }, (_, n) => `web-${String(n).padStart(3, '0')}`);
  for (let from = 0; from < names.length; from += 10) {
    const unit = world.repo.begin();
    for (const name of names.slice(from, from + 10))
      unit.create('application', randomUUID(), desiredState('application', { ...place, name, internal_id: name }));
    await commit(unit);
  }
  await world.settled();
  await open(`projects/${crowd.id}`, 'crowd');
  const cards = page.getByRole('list', { name: 'Workloads of production' });
  const card = (name: string) => cards.getByRole('listitem').filter({ hasText: name });
  await card('web-000').waitFor();
  expect(await cards.getByRole('listitem').count()).toBeLessThan(60);
  expect(await violationsOf(page)).toEqual([]);
  await cards.hover();
  await page.mouse.wheel(0, 100_000);
  await card('web-149').waitFor();
  await page.mouse.wheel(0, -100_000);

  const second = (await owner.get('/applications?q=web-001')).data[0].id;
  await card('web-001').hover();
  await world.observe('application', second, {
    phase: 'failed',
    ready_replicas: 0,
    consecutive_failures: 1,
    crash_loop_counted: false,
  });
  await card('web-001').getByText('Failed').waitFor();
  const first = () => cards.getByRole('listitem').first().innerText();
  expect(await first()).toContain('web-000');
  await page.mouse.move(0, 0);
  await expect.poll(first).toContain('web-001');
});
