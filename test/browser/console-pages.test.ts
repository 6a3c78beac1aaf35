import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { violationsOf } from '../harness/axe.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { pixelsBeyond, signIn } from '../harness/console-page.ts';
import { brief, Installation, owner } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';

let town: Installation;
let browser: TestPage;
let app: ApiObject;
let image: string;

const at = (...parts: string[]): string => `${town.url()}/console#/${['default', ...parts].join('/')}`;
const ofApp = (...tab: string[]): string =>
  at('projects', town.project.id, String(town.environment['name']), 'applications', app.id, ...tab);

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  town = await Installation.start({ store: 'sqlite' });
  const port = await freePort();
  app = await town.createApplication({
    name: 'api',
    source_type: 'image',
    image_url: image,
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port), LOG_LEVEL: 'info' },
    ...brief,
  });
  const { id } = await town.deploy(app.id);
  browser = await openPage();
  browser.page.setDefaultTimeout(5_000);
  // the first page makes the bundle, as other servers do beside it
  browser.page.setDefaultNavigationTimeout(30_000);
  // a test that failed leaves what it entered
  browser.page.on('dialog', (dialog) => void dialog.accept());
  await signIn(browser.page, town.url(), owner);
  await town.deployment(id, 'succeeded');
});
afterAll(async () => {
  await browser[Symbol.asyncDispose]();
  await town[Symbol.asyncDispose]();
});

beforeEach(({ onTestFailed }) => {
  onTestFailed(async () => console.error((await browser.page.locator('body').innerText()).slice(0, 2000)));
});

describe('a person at the console', () => {
  it('makes a project, and an application in it, which is deployed', async () => {
    const { page } = browser;
    await page.goto(at('projects'));
    await page.getByRole('button', { name: 'New project' }).first().click();
    await page.getByLabel('Name', { exact: true }).fill('shop');
    await page.getByRole('button', { name: 'Create project' }).click();
    await page.getByRole('heading', { name: 'shop', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'From an image' }).click();
    await page.getByLabel('Image', { exact: true }).fill(image);
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('http');
    await page.getByText('Environment variables').click();
    const port = await freePort();
    await page.getByLabel('Variables').fill(`PORT=${port}`);
    await page.getByLabel('Port').fill(String(port));
    await page.getByRole('button', { name: 'Create and deploy' }).click();
    await page.getByRole('heading', { name: 'http', level: 1 }).waitFor();
    await page
      .getByText(/Deploying|Rolling out|Running/)
      .first()
      .waitFor();
  });

  it('changes variables, which a deployment takes up, and rolls back to the one before', async () => {
    const { page } = browser;
    await page.goto(ofApp('environment'));
    await page.getByLabel('Name of the new variable').fill('COLOUR');
    await page.getByLabel('Value of the new variable').fill('blue');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('button', { name: 'Text', exact: true }).click();
    const text = page.getByLabel('All variables, as a .env file has them');
    expect(await text.inputValue()).toContain('COLOUR=blue\nLOG_LEVEL=info\n');
    await text.fill((await text.inputValue()).replace('LOG_LEVEL=info\n', 'LOG_LEVEL=debug\nnothing\n'));
    await page.getByText('Line 3: “nothing” has no “=”').first().waitFor();
    await text.fill((await text.inputValue()).replace('nothing\n', ''));
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await until('they are stored', async () => {
      const { env } = (await town.client.request('GET', `/api/v1/applications/${app.id}/env`)) as {
        env: Record<string, string>;
      };
      return env['COLOUR'] === 'blue' && env['LOG_LEVEL'] === 'debug';
    });

    await until('a deployment took them up', async () => {
      const [newest] = await town.client.list(`/api/v1/applications/${app.id}/deployments`);
      return newest?.['number'] === 2 && newest.status === 'succeeded';
    });
    await page.goto(ofApp('deployments'));
    const table = page.getByRole('table', { name: 'Deployments' });
    await table.getByRole('row').filter({ hasText: '#2' }).getByText('Serving').waitFor();
    await page.getByRole('link', { name: 'Deployment 2', exact: true }).click();
    await page.getByRole('heading', { name: 'api #2', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Difference' }).click();
    await page.getByRole('row').filter({ hasText: 'COLOUR' }).waitFor();
    await page.getByRole('link', { name: 'Log', exact: true }).click();
    await page.getByText('Nothing was built or pulled.').waitFor();

    await page.goto(ofApp('deployments'));
    await page.getByRole('button', { name: 'Actions of deployment 1', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Roll back to this' }).click();
    await page.getByRole('button', { name: 'Roll back to #1' }).click();
    // a deployment waits until its instance has stayed for a while
    await table.getByRole('row').filter({ hasText: '#3' }).getByText('Serving').waitFor({ timeout: 60_000 });
  });

  it('changes a setting, sees what saving causes, and adds a domain', async () => {
    const { page } = browser;
    await page.goto(ofApp('settings'));
    await page.getByLabel('Seconds for open connections').fill('5');
    await page.getByText('counts at once').waitFor();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
    const stored = await town.client.object('GET', `/api/v1/applications/${app.id}`);
    expect(stored['drain_seconds']).toBe(5);

    await page.goto(ofApp('domains'));
    await page.getByRole('button', { name: 'Add a domain' }).click();
    await page.getByLabel('Host').fill('not a host');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await until(
      'the field says what is wrong',
      async () => (await page.getByLabel('Host').getAttribute('aria-invalid')) === 'true',
    );
    // the browser itself reports the refusal
    browser.complaints.length = 0;
    await page.getByLabel('Host').fill('api.example.test');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('table', { name: 'Domains' }).getByText('api.example.test').waitFor();
  });

  it('adds an environment, and deletes it', async () => {
    const { page } = browser;
    await page.goto(at('projects', town.project.id));
    await page.getByRole('button', { name: 'More actions of the project' }).click();
    await page.getByRole('menuitem', { name: 'New environment' }).click();
    await page.getByLabel('Name', { exact: true }).fill('staging');
    await page.getByRole('button', { name: 'Create environment' }).click();
    const column = page.getByRole('region', { name: 'Environment staging' });
    await column.getByText('Nothing runs here yet').waitFor();
    await page.getByRole('button', { name: 'Actions of staging' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete environment' }).click();
    await column.waitFor({ state: 'detached' });
  });

  it('finds an application and stops it with the keyboard alone', async () => {
    const { page } = browser;
    await page.goto(at('projects'));
    await page.getByRole('table', { name: 'Projects' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('stop api');
    await page.getByRole('option', { name: 'Stop api' }).waitFor();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('api');
    await page.getByRole('option', { name: 'api', exact: false }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'api', level: 1 }).waitFor();
    const head = page.getByRole('main');
    await head.getByText('Stopped', { exact: true }).first().waitFor();
    // what a stopped application does not take is there, with its reason
    const restart = page.getByRole('button', { name: 'Restart' });
    expect(await restart.getAttribute('aria-disabled')).toBe('true');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await head.getByText('Running', { exact: true }).first().waitFor();
  });

  it('reads what an application writes, alone and beside others', async () => {
    const { page } = browser;
    await page.goto(ofApp('logs'));
    await page.getByRole('log', { name: 'Output' }).getByText('listening on').first().waitFor();
    const [, instance] = await page.getByRole('combobox', { name: 'Instance' }).getByRole('option').allInnerTexts();
    await page
      .locator('.log-source')
      .getByText(instance ?? '?', { exact: true })
      .first()
      .waitFor();
    await page.goto(`${ofApp('logs')}?level=error`);
    await page.getByText('Its instances have written nothing yet').waitFor();
    await page.getByRole('combobox', { name: 'Level' }).selectOption('');
    await page.getByRole('log', { name: 'Output' }).getByText('listening on').first().waitFor();
    await page.goto(at(`logs?project=${town.project.id}`));
    await page.getByRole('log', { name: 'Output of applications' }).getByText('listening on').first().waitFor();
    await page.getByLabel('Only lines with').fill('nothing writes this');
    await page.getByText('No line is like this so far').waitFor();
    expect(page.url()).toContain('search=nothing+writes+this');
  });

  it('opens a terminal in an instance', async () => {
    const { page, complaints } = browser;
    complaints.length = 0;
    await page.goto(ofApp('terminal'));
    await page.getByRole('button', { name: 'New session' }).click();
    const terminal = page.getByRole('region', { name: 'Terminal in api, session 1' });
    await terminal.getByText('Connected').waitFor();
    await terminal.getByRole('textbox').first().focus();
    await page.keyboard.type('exit 3\n');
    await terminal.getByText('Ended with exit code 3').waitFor();
  });

  it('is told what goes and what stays before an application goes', async () => {
    const { page } = browser;
    const { id } = await town.createApplication({ name: 'going', source_type: 'image', image_url: image });
    await page.goto(at('applications', id));
    await page.getByRole('heading', { name: 'going', level: 1 }).waitFor();
    await until('the address says where it is', () => Promise.resolve(page.url().includes(town.project.id)));
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByText('Its deployments, logs and variables').waitFor();
    await page.getByRole('button', { name: 'Delete going' }).click();
    await page.getByRole('heading', { name: /Application going was deleted/ }).waitFor();
    // what the page still asked for is not there: that is no complaint about the next one
    await page.goto('about:blank');
  });

  it('sees that the application that was made first runs', async () => {
    const { page } = browser;
    await page.goto(at('projects'));
    await page.getByRole('link', { name: 'shop' }).first().click();
    const card = page.getByRole('listitem').filter({ hasText: 'http' });
    await card.getByText('Running', { exact: true }).waitFor({ timeout: 30_000 });
  });
});

describe('every page', () => {
  const pages: [name: string, address: () => string, heading: string][] = [
    ['projects', () => at('projects'), 'Projects'],
    ['project', () => at('projects', town.project.id), String('p-')],
    ['project settings', () => at('projects', town.project.id, '-', 'settings'), 'p-'],
    ['new application', () => at('projects', town.project.id, '-', 'new?source=git'), 'New application'],
    ...['', 'deployments', 'logs', 'metrics', 'environment', 'domains', 'settings', 'events', 'terminal'].map(
      (tab): [string, () => string, string] => [`application ${tab}`, () => ofApp(tab), 'api'],
    ),
    ['logs', () => at('logs'), 'Logs'],
    ['welcome', () => at('welcome'), 'Set up'],
  ];

  it.each(pages)('is accessible and fits a narrow window: %s', async (_, address, heading) => {
    const { page, complaints } = browser;
    complaints.length = 0;
    await page.goto(address());
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
    await until('the page is read', async () => (await page.locator('main .skeleton').count()) === 0);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      // a page whose network has changed loads itself again
      const found = await until('axe has looked', async () => ({ violations: await violationsOf(page) }));
      expect(found.violations, colorScheme).toEqual([]);
    }
    await page.setViewportSize({ width: 360, height: 760 });
    expect(await pixelsBeyond(page)).toBeLessThanOrEqual(0);
    await page.setViewportSize({ width: 1280, height: 900 });
    expect(complaints).toEqual([]);
  });
});

describe('on an installation without users', () => {
  let world: ApiWorld;
  beforeAll(async () => {
    world = await startApi();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('the first one is made, and a server is declared with the command by which it joins', async () => {
    const { page } = browser;
    await page.goto('about:blank');
    await page.goto(`${world.url}/console`);
    await page.getByRole('heading', { name: 'Set up Setpoint' }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByLabel('E-mail').fill('first@example.test');
    await page.getByLabel('Password').fill('a long enough password');
    await page.getByRole('button', { name: 'Create the account' }).click();
    await page.getByRole('heading', { name: 'Set up', level: 1 }).waitFor();
    await page.getByLabel('Name of the server').fill('mine');
    await page.getByRole('button', { name: 'Declare the server' }).click();
    await page
      .getByText(/SETPOINT_JOIN_TOKEN=sj_/)
      .first()
      .waitFor();
    await page.getByText('Waiting for the agent').waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });
});
