import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { CommandLine } from '../harness/command-line.ts';
import { freePort, Program } from '../harness/program.ts';
import { startSmtpServer } from '../harness/smtp-server.ts';
import type { SmtpTestServer } from '../harness/smtp-server.ts';
import { longTag } from '../layer-report.ts';
import { until } from '../harness/until.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

const running = new AsyncDisposableStack();
const email = 'ada@example.test';
const password = 'correct horse battery';
let cli: CommandLine;
let smtp: SmtpTestServer;
let server: Program;
let url: string;
let data: string;

/** A server that others than this machine reach, with a mail server. */
beforeAll(async () => {
  cli = running.use(await CommandLine.open());
  smtp = running.use(await startSmtpServer());
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  data = join(cli.home, 'server');
  const mail = ['--smtp-url', smtp.url.replace('//', '//post:s3cretWord@'), '--mail-from', 'setpoint@example.test'];
  server = new Program(
    ['server', '--listen', `0.0.0.0:${port}`, '--data', data, ...mail],
    join(cli.home, 'server.log'),
  );
  running.defer(() => server.kill());
  server.start();
  await server.ready(url);
});
afterAll(() => running.disposeAsync());

async function post(path: string, body: object): Promise<{ status: number; data: ReturnType<typeof JSON.parse> }> {
  const response = await fetch(`${url}/default/api/v1${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, data: ((await response.json()) as { data: unknown }).data };
}

const onServer = (...argv: string[]) => cli.run([...argv, '--data', data]);

it('the first user presents the token that the server wrote to its log', async () => {
  const register = (...more: string[]) =>
    cli.run(['register', '--server', url, '--email', email, ...more], `${password}\n`);
  const refused = await register();
  expect(refused.code).toBe(1);
  expect(refused.err).toContain('The setup token is needed that the server printed when it started');
  // it answers before it has written that
  const [log, token] = await until('the server has told the token', async () => {
    const told = await server.log();
    const [, found] = /"setupToken":"([^"]+)"/.exec(told) ?? [];
    return found !== undefined && ([told, found] as const);
  });
  expect((await register('--setup-token', token)).code).toBe(0);
  await server.restart();
  await server.ready(url);
  expect((await server.log()).slice(log.length)).not.toContain('setupToken');
});

it('a code to log in arrives by mail, and the credentials of the mail server are in no log', async () => {
  const login = cli.atTerminal(['login', '--code', '--server', url, '--email', email]);
  await login.prints(`Code from the mail to ${email}`);
  const mail = await smtp.received(email);
  expect([mail.from, mail.subject]).toEqual(['setpoint@example.test', 'Your code to log in']);
  login.type(`${/^(\d{6}) is your code/.exec(mail.text)?.[1]}\r`);
  const { code, out } = await login.ended();
  expect([code, out]).toEqual([0, expect.stringContaining(`as ${email}, superadmin`)]);
  const log = await server.log();
  expect(log).not.toContain('s3cretWord');
  expect(log).not.toContain('is your code');
});

it('a user who has lost the password gets another from the operator', async () => {
  const { code, out } = await onServer('user', 'reset-password', email);
  expect(code).toBe(0);
  expect((await post('/auth/login', { email, password })).status).toBe(401);
  const login = await post('/auth/login', { email, password: out.trim() });
  expect([login.status, login.data.user.email]).toEqual([200, email]);
  const enter = ['login', '--server', url, '--email', email];
  expect((await cli.run(enter, `${out.trim()}\n`)).code).toBe(0);
  const refused = await cli.run(['get', 'projects']);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('run `setpoint password`')]);
  const changed = await cli.run(['password'], `${out.trim()}\nanother correct horse\n`);
  expect(changed).toEqual({
    code: 0,
    out: `The password of ${email} is changed; its other sessions have ended\n`,
    err: '',
  });
  expect((await cli.run(['get', 'projects'])).code).toBe(0);
  const unknown = await onServer('user', 'reset-two-factor', 'eve@example.test');
  expect([unknown.code, unknown.err]).toEqual([1, 'User not found\n']);
  expect((await onServer('user', 'reset-two-factor', email)).out).toBe(`${email} had no second factor\n`);
});

it('the operator ends every session and service key of a tenant, as after a restore of the store', async () => {
  const enter = ['login', '--server', url, '--email', email];
  expect((await cli.run(enter, 'another correct horse\n')).code).toBe(0);
  const key = (await cli.run(['keys', 'create', 'ci'])).out.trim();
  expect((await cli.run(['get', 'projects', '--token', key])).code).toBe(0);
  const { code, out } = await onServer('user', 'end-sessions');
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(/^1 session and 1 service key of tenant default have ended\n$/),
  ]);
  expect((await cli.run(['get', 'projects'])).code).toBe(1);
  expect((await cli.run(['get', 'projects', '--token', key])).code).toBe(1);
  const unknown = await onServer('user', 'end-sessions', '--tenant', 'nowhere');
  expect([unknown.code, unknown.err]).toEqual([1, 'Tenant not found\n']);
  expect((await onServer('user', 'end-sessions')).out).toBe(
    '0 sessions and 0 service keys of tenant default have ended\n',
  );
});

it('the operator replaces the key that signs tokens', { tags: [longTag] }, async () => {
  const before = await onServer('keys', 'list');
  expect(before.out).toMatch(/^KEY +CREATED +USE\n\S+ +\S+ +signs\n$/);
  expect((await onServer('keys', 'rotate')).out).toMatch(/^KEY +CREATED +USE\n\S+ +\S+ +verifies\n\S+ +\S+ +signs\n$/);
});
