import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CommandLine } from '../harness/command-line.ts';
import { startEtcd } from '../harness/etcd.ts';
import { freePort, Program } from '../harness/program.ts';
import { startSmtpServer } from '../harness/smtp-server.ts';
import type { SmtpTestServer } from '../harness/smtp-server.ts';
import { until } from '../harness/until.ts';

/** A server with little memory, and people of two tenants: one fills it, the others go on. */

const password = 'correct horse battery';
const MiB = 1024 * 1024;

interface Answer {
  status: number;
  retryAfter: number;
  message: string;
  data: ReturnType<typeof JSON.parse>;
}

class Caller {
  readonly #base: string;
  readonly #token: string | undefined;

  constructor(base: string, token?: string) {
    this.#base = base;
    this.#token = token;
  }

  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(`${this.#base}/api/v1${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const answer = text === '' ? undefined : JSON.parse(text);
    const retryAfter = Number(response.headers.get('retry-after') ?? 0);
    return { status: response.status, retryAfter, message: answer?.error?.message ?? '', data: answer?.data };
  }

  async logIn(email: string): Promise<Caller> {
    const { status, data } = await this.ask('POST', '/auth/login', { email, password });
    if (status !== 200) throw new Error(`Login of ${email} failed: ${status}`);
    return new Caller(this.#base, data.token);
  }
}

let stack: AsyncDisposableStack;
let folder: string;
let cli: CommandLine;
let mail: SmtpTestServer;
let program: Program;
let url: string;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-budgets-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  cli = stack.use(await CommandLine.open());
  mail = stack.use(await startSmtpServer());
});
afterEach(() => stack.disposeAsync());

async function start(...flags: string[]): Promise<void> {
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const argv = ['server', '--listen', `127.0.0.1:${port}`, '--data', join(folder, 'server')];
  const mailing = ['--smtp-url', mail.url, '--mail-from', 'setpoint@example.test'];
  const fast = ['--rate-limit', '0', '--heavy-rate-limit', '0', '--code-rate-limit', '0'];
  program = new Program([...argv, ...mailing, ...fast, ...flags], join(folder, 'server.log'), {
    NODE_OPTIONS: '--max-old-space-size=512',
  });
  stack.defer(() => program.kill());
  program.start();
  await ready();
}

const ready = () => program.ready(url);

async function register(tenant: string): Promise<Caller> {
  if (tenant !== 'default')
    expect((await cli.run(['tenant', 'create', tenant, '--data', join(folder, 'server')])).code).toBe(0);
  const visitor = new Caller(`${url}/${tenant}`);
  const email = `root@${tenant}.test`;
  expect((await visitor.ask('POST', '/auth/register', { email, password })).status).toBe(201);
  return visitor.logIn(email);
}

/** A plain user with a password, who came by an invite. */
async function addUser(root: Caller, tenant: string, name: string): Promise<Caller> {
  const email = `${name}@${tenant}.test`;
  expect((await root.ask('POST', '/users/invites', { email })).status).toBe(201);
  const visitor = new Caller(`${url}/${tenant}`);
  const before = (await mail.mailTo(email)).length;
  expect((await visitor.ask('POST', '/auth/send-code', { email })).status).toBe(200);
  const code = await until('the code is mailed', async () => {
    const mails = (await mail.mailTo(email)).slice(before);
    return mails.map(({ text }) => /\b(\d{6}) is your code/.exec(text)?.[1]).find((it) => it !== undefined);
  });
  const verified = await visitor.ask('POST', '/auth/verify-code', { email, code });
  const user = new Caller(`${url}/${tenant}`, verified.data.token);
  const set = await user.ask('POST', '/auth/me/set-initial-password', { password, new_password: password });
  expect([200, 204, 400]).toContain(set.status);
  if (set.status === 400)
    expect((await user.ask('POST', '/auth/me/set-initial-password', { password })).status).toBeLessThan(300);
  return visitor.logIn(email);
}

interface Place {
  project_id: string;
  environment_id: string;
  server_id: string;
}

async function place(user: Caller, root: Caller): Promise<Place> {
  const name = crypto.randomUUID().slice(0, 8);
  const project = await user.ask('POST', '/projects', { name });
  expect(project.status, project.message).toBe(201);
  const server = await root.ask('POST', '/servers', { name });
  const { id, default_environment_id } = project.data;
  return { project_id: id, environment_id: default_environment_id, server_id: server.data.id };
}

/** 224 KiB of variables, other ones each time. */
function variables(n: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`V${at}`, `${n} ${'x'.repeat(32_000)}`]));
}

function application(where: Place, n: number) {
  return { ...where, name: `app ${n}`, source_type: 'image', image_url: 'example/web:1', env: variables(n) };
}

/** Creates applications until one is refused for what is stored; answers with how many there are and the refusal. */
async function fill(user: Caller, where: Place): Promise<{ made: number; refusal: Answer }> {
  for (let n = 0; n < 3000; n++) {
    const answer = await user.ask('POST', '/applications', application(where, n));
    if (answer.status === 409) return { made: n, refusal: answer };
    if (answer.status === 429) await delay(Math.min(answer.retryAfter, 2) * 1000);
    else expect(answer.status, answer.message).toBe(201);
  }
  throw new Error('Nothing was refused');
}

const unhurried = { written_bytes_per_minute: 0 };

describe('a server with 512 MiB of heap', () => {
  it('refuses what does not fit, and goes on for logins, deletions, admins and after a restart', async () => {
    await start();
    const tenants = [];
    for (const name of ['default', 'other', 'third']) {
      const root = await register(name);
      const budgets = { project: unhurried, user: unhurried, tenant: unhurried };
      expect((await root.ask('PUT', '/settings', { budgets })).status).toBe(200);
      tenants.push({ name, root });
    }
    const refusals: string[] = [];
    const places: Place[] = [];
    const users: Caller[] = [];
    for (const { name, root } of tenants)
      for (const who of ['ann', 'bob', 'eve']) {
        const user = await addUser(root, name, who);
        const where = await place(user, root).catch(() => undefined);
        if (where === undefined) continue;
        const { made, refusal } = await fill(user, where);
        console.log(`${name} ${who}: ${made} applications, then: ${refusal.message}`);
        refusals.push(refusal.message);
        places.push(where);
        users.push(user);
      }
    expect(refusals.some((it) => /^The (project|owner of the project) would store/.test(it))).toBe(true);
    expect(refusals.some((it) => it.startsWith('The tenant would store'))).toBe(true);
    expect(refusals.some((it) => it.startsWith('The installation would store'))).toBe(true);
    const { scopes } = (await tenants[0]!.root.ask('GET', '/limits')).data;
    const { used, allowed } = scopes[0];
    console.log(`stored ${Math.round(used.stored_bytes / MiB)} of ${Math.round(allowed.stored_bytes / MiB)} MiB`);
    expect(used.stored_bytes).toBeLessThan(allowed.stored_bytes);

    for (const again of [false, true]) {
      if (again) {
        await program.restart();
        await ready();
      }
      for (const { name, root } of tenants) {
        expect((await root.ask('POST', '/projects', { name: `of the admin ${again}` })).status).toBe(201);
        await new Caller(`${url}/${name}`).logIn(`ann@${name}.test`);
      }
      const [user, where] = [users[0]!, places[0]!];
      const list = await user.ask('GET', `/applications?projectId=${where.project_id}&limit=10`);
      expect(list.status).toBe(200);
      const { id } = list.data[0];
      expect((await user.ask('DELETE', `/applications/${id}`)).status).toBe(200);
      await until('it is gone', async () => (await user.ask('GET', `/applications/${id}`)).status === 404);
    }
    expect((await users[0]!.ask('DELETE', `/projects/${places[0]!.project_id}`)).status).toBe(200);
    await until(
      'what was deleted makes room',
      async () => (await users[1]!.ask('POST', '/applications', application(places[1]!, 5000))).status === 201,
      { timeoutMs: 60_000, everyMs: 1000 },
    );
    expect(program.isRunning).toBe(true);
  }, 600_000);
});

describe('an etcd with a quota of 256 MiB', () => {
  it('is not filled by who changes variables again and again: they wait, and others go on', async () => {
    const etcd = stack.use(await startEtcd([`--quota-backend-bytes=${256 * MiB}`]));
    await start('--store', `etcd://${etcd.host}`, '--etcd-quota-bytes', `${256 * MiB}`);
    const root = await register('default');
    const elsewhere = await register('other');
    // what the tenant allows does not lift what the installation can take
    const budgets = { project: unhurried, user: unhurried, tenant: unhurried };
    expect((await root.ask('PUT', '/settings', { budgets })).status).toBe(200);
    const user = await addUser(root, 'default', 'low');
    const where = await place(user, root);
    const made = await user.ask('POST', '/applications', application(where, 0));
    expect(made.status, made.message).toBe(201);
    const statuses = new Map<number, number>();
    const end = performance.now() + 120_000;
    let other = 0;
    for (let n = 1; performance.now() < end; n++) {
      const answer = await user.ask('PUT', `/applications/${made.data.id}/env`, variables(n));
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      if (answer.status === 429) {
        expect(answer.retryAfter).toBeGreaterThan(0);
        await delay(50);
      }
      if (n % 100 !== 0) continue;
      other += 1;
      expect((await elsewhere.ask('POST', '/projects', { name: `project ${other}` })).status).toBe(201);
      await new Caller(`${url}/other`).logIn('root@other.test');
      expect((await root.ask('POST', '/projects', { name: `admin ${other}` })).status).toBe(201);
    }
    console.log(`answers: ${JSON.stringify([...statuses])}`);
    expect(other).toBeGreaterThan(3);
    expect([...statuses.keys()].toSorted((a, b) => a - b)).toEqual([200, 429]);
    expect((await user.ask('DELETE', `/applications/${made.data.id}`)).status).toBe(200);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  }, 600_000);
});
