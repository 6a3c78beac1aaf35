import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { clusterRequest } from '../../cli/cluster-request.ts';
import { openPage } from '../harness/browser.ts';
import type { TestPage } from '../harness/browser.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation, owner } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { startSmtpServer } from '../harness/smtp-server.ts';
import type { SmtpTestServer } from '../harness/smtp-server.ts';
import { until } from '../harness/until.ts';

let town: Installation;
let mail: SmtpTestServer;
let browser: TestPage;
let app: ApiObject;
/** A name that a page which trusts names would run. */
const name = '<img src=x onerror=alert(1)>';

beforeAll(async () => {
  const { http } = await ensureTestImages();
  mail = await startSmtpServer();
  const mailFlags = ['--smtp-url', mail.url, '--mail-from', 'setpoint@example.test'];
  town = await Installation.start({ store: 'sqlite', serverFlags: mailFlags });
  const port = await freePort();
  app = await town.createApplication({
    name,
    source_type: 'image',
    image_url: http,
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port) },
  });
  browser = await openPage();
});
afterAll(async () => {
  await browser[Symbol.asyncDispose]();
  await town[Symbol.asyncDispose]();
  await mail[Symbol.asyncDispose]();
});

it('loads again when one of its files did not arrive', async () => {
  const { page, complaints } = browser;
  await page.route('**/console/main-*.js', (route) => route.abort(), { times: 1 });
  await page.goto(`${town.url()}/console`);
  await page.getByLabel('E-mail').waitFor();
  complaints.length = 0;
});

it('shows in a browser what is asked for and what is, as it changes', async () => {
  const { page, complaints } = browser;
  await page.goto(`${town.url()}/console`);
  await page.getByLabel('Tenant').fill('elsewhere');
  await page.getByLabel('E-mail').fill(owner.email);
  await page.getByLabel('Password').fill('not the password');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'not found' }).waitFor();
  expect(await page.getByLabel('Tenant').inputValue()).toBe('elsewhere');
  expect(await page.getByLabel('E-mail').inputValue()).toBe(owner.email);
  await page.getByLabel('Tenant').fill('default');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'E-mail or password is wrong' }).waitFor();
  // the browser itself reports the 404 and the 401
  complaints.length = 0;

  await page.getByLabel('Password').fill(owner.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('table', { name: 'Projects' }).getByRole('link').first().click();
  const card = page.getByRole('listitem').filter({ hasText: name });
  await card.getByText('Stopped').waitFor();

  await card.getByRole('link', { name }).click();
  const heading = page.getByRole('heading', { name, level: 1 });
  await heading.waitFor();
  expect(await page.title()).toBe(`${name} · Setpoint`);
  await until(
    'the heading has the focus',
    async () => (await page.evaluate('document.activeElement.tagName')) === 'H1',
  );
  const restart = page.getByRole('button', { name: 'Restart' });
  expect(await restart.getAttribute('aria-disabled')).toBe('true');
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  const head = page.getByRole('banner').locator('xpath=following::header').first();
  await head.getByText('Deploying').waitFor();
  await head.getByText('Running').waitFor();
  await until('it can be restarted', async () => (await restart.getAttribute('aria-disabled')) === null);

  // the container is removed from outside: the page shows that, and its successor
  const [container = ''] = await instancesOf(app.id);
  await docker('rm', '--force', container);
  const events = page.getByRole('list', { name: 'Events' });
  await until('the event is shown', async () => /gone|removed|lost|missing/i.test(await events.innerText()), {
    explain: () => events.innerText(),
  });
  await page.getByText('1 of 1 ready').first().waitFor();
  await page.goto(`${town.url()}/console#/servers`);
  await page.getByRole('table', { name: 'Servers' }).getByText('Connected').first().waitFor();
  await page.goto(`${town.url()}/console#/default/nowhere`);
  await page.getByRole('heading', { name: 'No such page' }).waitFor();
  expect(complaints).toEqual([]);
});

it('shows of a deployment that was cancelled before its build that nothing was built or pulled', async () => {
  const { page } = browser;
  const absent = await town.client.object('POST', '/api/v1/servers', { name: 'never-joined' });
  const source = {
    source_type: 'git',
    repository_url: 'https://git.example.test/shop.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  };
  const { id } = await town.createApplication({ name: 'never-built', server_id: absent.id, ...source });
  const deployment = await town.deploy(id);
  await page.goto(`${town.url()}/console#/default/deployments/${deployment.id}`);
  const log = page.getByRole('log', { name: 'Log of deployment 1' });
  await log.getByText('No line yet.').waitFor();
  await town.client.request('POST', `/api/v1/deployments/${deployment.id}/cancel`);
  await town.deployment(deployment.id, 'cancelled');
  await log.getByText('Nothing was built or pulled.').waitFor();
});

it('goes back to the login within seconds when the session is ended elsewhere', async () => {
  const { page } = browser;
  const sessions = (await town.client.request('GET', '/api/v1/auth/sessions')) as ApiObject[];
  const own = sessions.find((one) => one['current'] !== true);
  await town.client.request('DELETE', `/api/v1/auth/sessions/${own?.id}`);
  await page.getByRole('alert').filter({ hasText: 'The session has ended' }).waitFor();
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
});

it('lets somebody in who was invited by mail, without a password', async () => {
  const { page } = browser;
  const guest = 'guest@example.test';
  await town.client.request('POST', `/api/v1/projects/${town.project.id}/invites`, { email: guest, role: 'viewer' });
  const { text: invite } = await mail.received(guest);
  const link = /\S+\/console#\S+/.exec(invite)?.[0] ?? '';
  expect(link).toContain(town.url());
  await page.goto('about:blank');
  await page.goto(link);
  await page.getByRole('button', { name: 'Sign in by a mailed code' }).click();
  await page.getByLabel('E-mail').fill(guest);
  await page.getByRole('button', { name: 'Mail me a code' }).click();
  const { text: codeMail } = await mail.received(guest, 2);
  await page.getByLabel('Code from the mail').fill(/\b\d{6}\b/.exec(codeMail)?.[0] ?? '');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText('with the role viewer').waitFor();
  await page.getByRole('button', { name: 'Accept' }).click();
  const card = page.getByRole('listitem').filter({ hasText: name });
  await card.getByText('Running').waitFor();

  // a viewer sees and does not touch
  await card.getByRole('link', { name }).click();
  const deploy = page.getByRole('button', { name: 'Deploy', exact: true });
  await until('it is said why not', async () => (await deploy.getAttribute('aria-disabled')) === 'true');
  await deploy.focus();
  await page.getByText('you have the role viewer').first().waitFor();
});

it('asks somebody whose password the operator reset for another one, and goes on', async () => {
  const { page, complaints } = browser;
  const [email, better] = ['guest@example.test', 'another correct horse'];
  const account = { tenant: 'default', email };
  const answer = await clusterRequest(join(town.dir, 'server'), 'POST', '/users/reset-password', account);
  const { password } = z.object({ data: z.object({ password: z.string() }) }).parse(answer).data;
  await page.getByRole('alert').filter({ hasText: 'The session has ended' }).waitFor();
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByLabel('Password from the operator').fill(password);
  await page.getByLabel('New password').fill(better);
  await page.getByRole('button', { name: 'Change the password' }).click();
  await page.getByRole('heading', { name, level: 1 }).waitFor();
  // the browser itself reports the refusals
  complaints.length = 0;
});
