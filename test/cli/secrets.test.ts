import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createServiceKey } from '../../api/auth/service-key.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { AgentConfig } from '../../cli/agent-config.ts';
import { agentLogs, startLocalAgent } from '../../cli/agent.ts';
import { startControlPlane } from '../../cli/control-plane.ts';
import { createLog } from '../../cli/log.ts';
import { parseConfig } from '../../cli/parse-config.ts';
import { ServerConfig } from '../../cli/server-config.ts';
import { startEtcd } from '../harness/etcd.ts';
import { openFrames } from '../harness/frames.ts';
import { testRepositories } from '../harness/git-server.ts';
import { entriesOf } from '../harness/leftover-keys.ts';
import { startSmtpServer } from '../harness/smtp-server.ts';
import { until } from '../harness/until.ts';
import { joinToken } from '../harness/join-token.ts';

/** A secret as it was planted, under a name that tells where. */
type Secrets = Map<string, string>;

interface Output {
  where: string;
  text: string;
  /** Secrets that belong there: whoever asks made them, or they are shown once. */
  may?: readonly string[];
}

/** Forms in which a secret is still one. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ];
}

/** What is short is found by itself only: as a part of numbers and hashes it is there by chance. */
function isIn(text: string, form: string): boolean {
  return form.length < 10 ? new RegExp(`(?<![0-9A-Za-z])${form}(?![0-9A-Za-z])`).test(text) : text.includes(form);
}

function leaks(secrets: Secrets, outputs: readonly Output[]): string[] {
  return outputs.flatMap(({ where, text, may = [] }) =>
    [...secrets]
      .filter(([name, secret]) => !may.includes(name) && formsOf(secret).some((form) => isIn(text, form)))
      .map(([name]) => `${name} is in ${where}`),
  );
}

describe.each(['sqlite', 'etcd'] as const)('secrets that were given to an installation on %s', (kind) => {
  const secrets: Secrets = new Map();
  const outputs: Output[] = [];
  const lines: string[] = [];
  const cleanup = new AsyncDisposableStack();
  let dump: { key: string; value: string }[] = [];
  let countAnswers = 0;

  /** Plants a secret: it must be found nowhere but where it is allowed. */
  function plant(name: string, secret = `planted-${crypto.randomUUID()}`): string {
    secrets.set(name, secret);
    return secret;
  }

  beforeAll(async () => {
    await using stack = new AsyncDisposableStack();
    const dir = await mkdtemp(join(tmpdir(), 'setpoint-secrets-'));
    stack.defer(() => rm(dir, { recursive: true, force: true }));
    const mailPassword = plant('password of the mail server');
    const smtp = stack.use(await startSmtpServer({ password: mailPassword }));
    const repositories = stack.use(await testRepositories());
    const repository = await repositories.create('shop');
    await repository.commit({ Dockerfile: 'FROM scratch\n' });
    const etcd = kind === 'etcd' ? stack.use(await startEtcd()) : undefined;
    const destination = { write: (line: string) => void lines.push(line) };
    const log = createLog({ level: 'trace' }, destination);
    const config = parseConfig(ServerConfig, {
      listen: '127.0.0.1:0',
      data: join(dir, 'server'),
      ...(etcd !== undefined && { store: `etcd://${etcd.host}` }),
      smtpUrl: `smtp://mailer:${mailPassword}@127.0.0.1:${smtp.port}`,
      mailFrom: 'setpoint@example.test',
      publicUrl: 'http://setpoint.test',
    });
    const plane = stack.use(await startControlPlane(config, log));
    plant('token of the operator', JSON.parse(await readFile(join(dir, 'server', 'admin.json'), 'utf8')).token);
    for (const [id, key] of Object.entries<string>(
      JSON.parse(await readFile(join(dir, 'server', 'keys.json'), 'utf8')).keys,
    ))
      plant(`sealing key ${id}`, key);

    const base = `${plane.url}/default/api/v1`;
    const ask = async (
      method: string,
      path: string,
      body?: unknown,
      { headers = {}, may = [] }: { headers?: Record<string, string>; may?: readonly string[] } = {},
    ): Promise<{ status: number; data: ReturnType<typeof JSON.parse> }> => {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      countAnswers++;
      const answered = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
      outputs.push({ where: `the answer to ${method} ${path}`, text: `${answered}\n${text}`, may });
      let data;
      try {
        data = JSON.parse(text)?.data;
      } catch {
        data = undefined;
      }
      return { status: response.status, data };
    };

    /** Its answer is kept, as is what tells whether the same is asked again. */
    const repeatable = <T extends { headers: Record<string, string> }>(options: T): T => ({
      ...options,
      headers: { ...options.headers, 'idempotency-key': crypto.randomUUID() },
    });

    // Accounts
    const password = plant('password');
    const email = 'owner@example.test';
    expect((await ask('POST', '/auth/register', { email, password })).status).toBe(201);
    await ask('POST', '/auth/login', { email, password: plant('wrong password') });
    await ask('POST', '/auth/login', { email: plant('password in the place of the address'), password });
    const login = await ask('POST', '/auth/login', { email, password });
    expect(login.status).toBe(200);
    const token: string = plant('session token', login.data.token);
    // it is in its own answer, which was asked for before it was known
    outputs.at(-1)!.may = ['session token'];
    const by = { authorization: `Bearer ${token}` };
    const mine = { headers: by };
    await ask('GET', '/projects', undefined, { headers: { authorization: `Basic ${plant('basic credential')}` } });
    await ask('GET', '/projects', undefined, {
      headers: { 'x-service-key': plant('unknown key', createServiceKey(systemRandom)) },
    });
    const mailedCode = async (to: string, of: string): Promise<string> => {
      expect((await ask('POST', '/auth/send-code', { email: to })).status).toBe(200);
      const mail = await until(`a code for ${to}`, async () =>
        (await smtp.mailTo(to)).find(({ subject }) => subject === 'Your code to log in'),
      );
      return plant(of, /^\d{6}/.exec(mail.text)![0]);
    };
    const code = await mailedCode(email, 'code by mail');
    await ask('POST', '/auth/verify-code', { email, code: code === '000000' ? '000001' : '000000' });
    const byCode = await ask('POST', '/auth/verify-code', { email, code }, { may: ['token by a code'] });
    expect(byCode.status).toBe(200);
    plant('token by a code', byCode.data.token);
    await ask('POST', '/auth/verify-code', { email, code });
    const newPassword = plant('new password');
    await ask(
      'PUT',
      '/auth/me/password',
      { current_password: plant('wrong current password'), new_password: newPassword },
      mine,
    );
    expect(
      (await ask('PUT', '/auth/me/password', { current_password: password, new_password: newPassword }, mine)).status,
    ).toBeLessThan(300);

    // A second factor, and the codes that stand in for it
    const begun = { ...mine, may: ['second factor'] };
    const { secret } = (await ask('POST', '/auth/me/two-factor', { password: newPassword }, begun)).data;
    plant('second factor', secret);
    await ask('POST', '/auth/me/two-factor/confirm', { totp: '000000' }, mine);
    const totp = new TOTP({ secret: Secret.fromBase32(secret) }).generate();
    const names = Array.from({ length: 10 }, (_, n) => `recovery code ${n}`);
    const confirmed = await ask('POST', '/auth/me/two-factor/confirm', { totp }, { ...mine, may: names });
    expect(confirmed.status).toBe(200);
    for (const [n, recovery] of confirmed.data.recovery_codes.entries()) plant(`recovery code ${n}`, recovery);
    await ask('POST', '/auth/login', { email, password: newPassword });
    const [recovery] = confirmed.data.recovery_codes;
    const second = await ask(
      'POST',
      '/auth/login',
      { email, password: newPassword, totp: recovery },
      { may: ['other token'] },
    );
    expect(second.status).toBe(200);
    plant('other token', second.data.token);
    await ask('GET', '/auth/me/two-factor', undefined, mine);

    // Keys and tokens that are shown once, and once more to who repeats the request
    const again = { ...mine, headers: { ...by, 'idempotency-key': 'key-1' }, may: ['service key'] };
    const key = (await ask('POST', '/settings/service-keys', { name: 'ci' }, again)).data.key;
    plant('service key', key);
    await ask('POST', '/settings/service-keys', { name: 'ci' }, again);
    await ask('GET', '/settings/service-keys', undefined, mine);
    await ask('GET', '/projects', undefined, { headers: { 'x-service-key': key } });
    const joining = { ...mine, headers: { ...by, 'idempotency-key': 'key-2' }, may: ['join token'] };
    const server = (await ask('POST', '/servers', { name: 'one' }, joining)).data;
    plant('join token', server.join_token);
    await ask('POST', '/servers', { name: 'one' }, joining);
    const project = (await ask('POST', '/projects', { name: 'shop' }, mine)).data;

    // People who are invited
    const guest = 'guest@example.test';
    const invite = (await ask('POST', `/projects/${project.id}/invites`, { email: guest }, mine)).data;
    const invitation = await smtp.received(guest);
    const inviteToken = plant('token of an invite', /\/invites\/([\w-]{43})\s/.exec(invitation.text)![1]);
    const guestCode = await mailedCode(guest, 'code of a guest');
    const login2 = await ask('POST', '/auth/verify-code', { email: guest, code: guestCode }, { may: ['guest token'] });
    const guestToken = plant('guest token', login2.data.token);
    const asGuest = { headers: { authorization: `Bearer ${guestToken}` } };
    await ask('GET', `/invites/${inviteToken}`, undefined, mine);
    await ask('GET', '/me/invites', undefined, asGuest);
    expect((await ask('GET', `/invites/${inviteToken}`, undefined, asGuest)).data.id).toBe(invite.id);
    expect((await ask('POST', `/invites/${inviteToken}/accept`, undefined, asGuest)).status).toBe(200);
    await ask('POST', `/invites/${inviteToken}/accept`, undefined, asGuest);
    await ask('GET', `/projects/${project.id}/invites`, undefined, mine);
    await ask('GET', `/projects/${project.id}/members`, undefined, asGuest);
    const first = { password: plant('first password of a guest') };
    expect((await ask('POST', '/auth/me/set-initial-password', first, repeatable(asGuest))).status).toBe(200);
    await ask('POST', '/auth/login', { email: guest, ...first }, repeatable({ ...mine, may: ['login of a guest'] }));

    // Workloads
    const ofAgent = agentLogs('trace', destination);
    const agent = stack.use(
      await startLocalAgent(
        parseConfig(AgentConfig, {
          server: `${plane.url}/default`,
          token: server.join_token,
          data: join(dir, 'agent'),
          runtime: 'mock',
          gitProtocols: 'file',
          gitFileRoots: tmpdir(),
          gitLoopback: true,
        }),
        { ...ofAgent, log: ofAgent.log.child({ part: 'agent' }) },
      ),
    );
    expect(agent.serverId).toBe(server.id);
    await until(
      'the server is active',
      async () => (await ask('GET', `/servers/${server.id}`, undefined, mine)).data.status === 'active',
    );
    const fields = { project_id: project.id, server_id: server.id };
    const git = {
      source_type: 'git',
      repository_url: repository.fileUrl,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
    };
    const app = (
      await ask(
        'POST',
        '/applications',
        {
          ...fields,
          ...git,
          name: 'web',
          env: { DATABASE_URL: `postgres://u:${plant('variable')}@db/x` },
          build_args: { NPM_TOKEN: plant('argument of a build') },
        },
        mine,
      )
    ).data;
    const own = { ...mine, may: ['variable', 'changed variable', 'merged variable'] };
    const deploy = async (id: string, wanted: string): Promise<void> => {
      const deployment = (await ask('POST', `/applications/${id}/deploy`, undefined, mine)).data.id;
      await until(
        `deployment is ${wanted}`,
        async () => (await ask('GET', `/deployments/${deployment}`, undefined, mine)).data.status === wanted,
        { timeoutMs: 60_000 },
      );
      for (const what of ['events', 'build-logs', 'runtime-logs', 'logs'])
        await ask('GET', `/deployments/${deployment}/${what}`, undefined, mine);
    };
    await deploy(app.id, 'succeeded');
    await ask('GET', `/applications/${app.id}/env`, undefined, own);
    await ask('PUT', `/applications/${app.id}/env`, { env: { A: plant('changed variable') } }, own);
    await ask('PATCH', `/applications/${app.id}/env`, { env: { B: plant('merged variable') } }, own);
    await ask('PUT', `/applications/${app.id}`, { build_args: { NPM_TOKEN: plant('changed argument') } }, mine);
    await ask('PUT', `/applications/${app.id}`, { build_secrets: { npm: plant('secret of a build') } }, mine);
    const broken = (
      await ask(
        'POST',
        '/applications',
        {
          ...fields,
          name: 'broken',
          source_type: 'image',
          image_url: 'example/app:missing',
          env: { A: plant('variable of what fails') },
        },
        mine,
      )
    ).data;
    await deploy(broken.id, 'failed');
    for (const path of ['', '/instances', '/events', '/runtime-logs', '/build-logs', '/deployments', '/dependencies'])
      await ask('GET', `/applications/${app.id}${path}`, undefined, mine);

    // What is refused says why, and not what it was
    const bad = (body: unknown) =>
      ask(
        'POST',
        '/applications',
        typeof body === 'string' ? body : { ...fields, ...git, name: 'bad', ...(body as object) },
        mine,
      );
    for (const refused of [
      { repository_url: `https://user:${plant('password in a git address')}@git.example/x.git` },
      { repository_url: `https://${plant('token in a git address')}@git.example/x.git` },
      { repository_url: `https://git.example/x.git?token=${plant('token in the query of a git address')}` },
      { source_type: 'image', image_url: `https://u:${plant('password in an image')}@registry.example/app` },
      { env: { 'not a name': plant('variable without a name') } },
      { env: { A: [plant('variable in a list')] } },
      { env: plant('variables as a text') },
      { build_args: { 'A B': plant('argument without a name') } },
      { build_secrets: { 'a/b': plant('secret of a build without an id') } },
      { build_secrets: { a: [plant('secret of a build in a list')] } },
      { [`x${plant('unknown field').slice(0, 8)}`]: plant('value of an unknown field') },
      { healthcheck_path: plant('path without a slash') },
      `{"env":{"A":"${plant('variable in what is no JSON')}"`,
    ])
      expect((await bad(refused)).status, JSON.stringify(refused)).toBe(400);
    await ask('POST', '/auth/login', `{"email":"a","password":"${plant('password in what is no JSON')}"`);
    await ask('POST', '/auth/login', {
      email: [plant('password in a list')],
      password: { a: plant('password in an object') },
    });
    await ask('GET', `/applications/${plant('secret in the place of an id')}`, undefined, {
      ...mine,
      may: ['secret in the place of an id'],
    });
    const socket = `${plane.url.replace('http', 'ws')}/default/ws/watch`;
    await openFrames(`${socket}?token=${plant('forged token', `${token.slice(0, -8)}AAAAAAAA`)}`).catch(
      (error: unknown) => outputs.push({ where: 'a refused stream', text: String(error) }),
    );
    // a service key and a join token of the right form, in places where nobody expects them
    await ask('GET', `/projects?q=${plant('key in a query', createServiceKey(systemRandom))}`, undefined, mine);
    await ask(
      'POST',
      '/projects',
      { name: plant('join token as a name', joinToken(crypto.randomUUID())).slice(0, 20) },
      mine,
    );

    const ofItself = await ask('GET', `/servers/${server.id}/logs?source=agent&tail=5000`, undefined, mine);
    expect(ofItself.data.lines.length).toBeGreaterThan(10);
    await ask('GET', '/notifications', undefined, mine);
    await ask('GET', `/servers/${server.id}/events`, undefined, mine);
    await ask('GET', '/audit', undefined, mine);
    await ask('GET', '/auth/me', undefined, mine);
    await ask('POST', `/applications/${app.id}/stop`, undefined, mine);
    await ask('DELETE', `/applications/${broken.id}`, undefined, mine);
    const frames = await openFrames(`${socket}?token=${token}&cursor=1`).catch(() => undefined);
    await frames?.next('ready').catch(() => undefined);
    outputs.push({ where: 'the stream of changes', text: JSON.stringify(frames?.all ?? []) });
    await frames?.[Symbol.asyncDispose]();
    for (const page of ['/metrics', '/openapi.json', '/healthz', '/readyz'])
      outputs.push({ where: page, text: await (await fetch(`${plane.url}${page}`)).text() });
    dump = (await entriesOf(plane.store)).map(({ key, value }) => ({ key, value }));
    cleanup.use(stack.move());
  }, 120_000);
  afterAll(() => cleanup.disposeAsync());

  test('are in no answer but their own', () => {
    expect(countAnswers).toBeGreaterThan(60);
    expect(leaks(secrets, outputs)).toEqual([]);
  });

  test('are in no line of the logs of the control plane and the agent', async () => {
    expect(lines.length).toBeGreaterThan(100);
    expect(lines.some((line) => line.includes('"part":"agent"'))).toBe(true);
    expect(
      leaks(
        secrets,
        lines.map((text) => ({ where: `the log: ${text}`, text })),
      ),
    ).toEqual([]);
  });

  test('are in no record of the store', () => {
    expect(dump.length).toBeGreaterThan(20);
    expect(
      leaks(
        secrets,
        dump.map(({ key, value }) => ({ where: `the store: ${key}`, text: `${key} ${value}` })),
      ),
    ).toEqual([]);
  });
});
