import { join } from 'node:path';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import { loadConnection } from '../../cli/credentials.ts';
import { account, CommandLine, Town } from '../harness/command-line.ts';
import { freePort } from '../harness/program.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

/** An application of an image; the mock engine runs every one but the tags `missing` and `crashing`. */
function manifest(name: string, changes: Record<string, unknown> = {}): string {
  const spec = {
    project: 'shop',
    server: 'one',
    source_type: 'image',
    image_url: 'ghcr.io/web:1',
    exposed_port: 8080,
    healthcheck_path: '/healthz',
    min_healthy_seconds: 1,
    ...changes,
  };
  return JSON.stringify({ apiVersion: 'setpoint/v1', kind: 'Application', metadata: { name }, spec });
}

// each command is a process, and several run at once
vi.setConfig({ testTimeout: 180_000 });

let town: Town;

const run = (...argv: string[]) => town.cli.run(argv);
const applied = (name: string, changes?: Record<string, unknown>, ...flags: string[]) =>
  town.cli.run(['apply', '-f', '-', ...flags], manifest(name, changes));
const output = (out: string, err = '', code = 0) => ({ code, out: expect.stringMatching(out), err });

beforeAll(async () => {
  town = await Town.start();
});
afterAll(() => town[Symbol.asyncDispose]());

describe('before a login', () => {
  it('a verb says how to log in', async () => {
    expect(await run('get', 'projects')).toEqual({
      code: 1,
      out: '',
      err: 'No server is known: run `setpoint login --server URL --email ADDRESS`, or set SETPOINT_URL\n',
    });
    expect((await run('get', 'projects', '--server', town.url)).err).toContain(
      `run \`setpoint login --server ${town.url} --tenant default --email ADDRESS\``,
    );
  });

  it('a wrong password, a wrong address and a wrong server are distinguished', async () => {
    const wrong = await town.login('nothing like it');
    expect(wrong).toMatchObject({ code: 1, out: '' });
    expect(wrong.err).not.toContain('nothing like it');
    expect(wrong.err).not.toContain('setpoint login');
    const free = `http://127.0.0.1:${await freePort()}`;
    const nobody = await town.cli.run(['login', '--server', free, '--email', 'a@b.test'], 'x\n');
    expect(nobody).toMatchObject({ code: 1, out: '' });
    expect(nobody.err).toMatch(
      /^Cannot reach http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED.*Does the control plane run there\?/,
    );
    const none = await town.cli.run(['login', '--server', 'nonsense', '--email', 'a@b.test'], 'x\n');
    expect(none.err).toContain('The server must be an address such as http://127.0.0.1:7070: got nonsense');
  });
});

it('the first user of a tenant registers, and logs in with a second factor', async () => {
  await using cli = await CommandLine.open();
  const password = 'a long enough password';
  const who = ['--server', town.url, '--tenant', 'careful', '--email', 'first@example.test'];
  expect((await cli.run(['tenant', 'create', 'careful', '--data', town.data])).code).toBe(0);
  expect(await cli.run(['register', ...who], `${password}\n`)).toEqual(
    output('^Logged in to \\S+ \\(careful\\) as first@example.test, superadmin; kept as context \\S+/careful\n$'),
  );
  expect((await cli.run(['get', 'projects'])).out).toMatch(/^NAME/);

  const { token = '' } = await loadConnection({}, join(cli.home, '.config', 'setpoint', 'credentials.json'));
  const client = createClient({ server: town.url, tenant: 'careful', token });
  const { secret } = z
    .object({ secret: z.string() })
    .parse(await client.request('POST', '/api/v1/auth/me/two-factor', { password }));
  const totp = new TOTP({ secret: Secret.fromBase32(secret) }).generate();
  const { recovery_codes } = z
    .object({ recovery_codes: z.array(z.string()) })
    .parse(await client.request('POST', '/api/v1/auth/me/two-factor/confirm', { totp }));

  const alone = await cli.run(['login', ...who], `${password}\n`);
  expect(alone).toMatchObject({ code: 1, out: '' });
  expect(alone.err).toBe('Code of your authenticator is missing: give it as a line of standard input\n');
  expect((await cli.run(['login', ...who], `${password}\n000000\n`)).code).toBe(1);
  expect((await cli.run(['login', ...who], `${password}\n${recovery_codes[0]}\n`)).code).toBe(0);
});

describe('after a login', () => {
  beforeAll(async () => {
    expect(await town.login()).toEqual(
      output(
        `^Logged in to ${town.url} \\(default\\) as owner@example.test, superadmin; kept as context \\S+/default\n$`,
      ),
    );
  });

  it.concurrent('what is typed at a terminal as a password is not shown', async () => {
    const login = town.cli.atTerminal(['login', '--server', town.url, '--email', account.email]);
    await login.prints('Password: ');
    login.type(`wrong\u007f\u007f\u007f\u007f\u007f${account.password}\r`);
    const { code, out } = await login.ended();
    expect(out).toContain('Logged in to');
    expect(out).not.toContain(account.password);
    expect(code).toBe(0);
  });

  it.concurrent('which ports of a server applications may take is shown and changed', { tags: [longTag] }, async () => {
    expect((await run('create', 'project', 'harbour')).code).toBe(0);
    expect((await run('create', 'server', 'quay')).code).toBe(0);
    expect(await run('ports', 'quay')).toEqual(
      output('^Ports of applications are closed on the server\nPORT +USE\n1024-65535 +for any application\n$'),
    );
    const flags = ['--open', '--range', '8000-8999', '--reserve', '8500,8501', '--bind', '80=harbour'];
    const rows = '8000-8999 +for any application\n8500 +reserved\n8501 +reserved\n80 +for project harbour\n$';
    expect((await run('ports', 'quay', ...flags)).out).toMatch(
      new RegExp(`^Ports of applications are open on the server\nPORT +USE\n${rows}`),
    );
    const released = (await run('ports', 'quay', '--release', '80,8500', '--bind', '8501=harbour')).out;
    expect(released).toMatch(/\n8000-8999 +for any application\n8501 +for project harbour\n$/);
    expect((await run('ports', 'quay', '--range', '8000')).err).toContain('A port is a number from 1 to 65535');
    expect((await run('ports', 'quay', '--bind', '80=nowhere')).err).toContain('No project is called nowhere');
  });

  it.concurrent('what is needed for a start is created: project, environment, server, user', async () => {
    expect(await run('create', 'project', 'garden')).toEqual(output('^project garden is created\n$'));
    expect(await run('create', 'environment', 'staging', '--project', 'garden')).toEqual(
      output('^environment staging is created\n$'),
    );
    expect((await run('create', 'environment', 'staging')).err).toContain('name it by --project');
    const created = await run('create', 'server', 'two');
    expect(created).toEqual({
      ...output(
        '^server two is created\nRun this on that machine as root, once, before \\S+:\n  .*SETPOINT_JOIN_TOKEN=',
      ),
      err: expect.stringMatching(/^Warning: .*one of its own machine alone.*SETPOINT_PUBLIC_URL/),
    });
    const again = await run('join', 'two');
    const token = /SETPOINT_JOIN_TOKEN=(\S+)/;
    expect(again.out).toMatch(token);
    expect(token.exec(again.out)?.[1]).not.toBe(token.exec(created.out)?.[1]);
    expect((await run('create', 'server', 'two')).code).toBe(1);

    const question = town.cli.atTerminal(['delete', 'server', 'two']);
    const agent =
      '; where its agent is connected, it removes itself with its containers, images and rules, but no volumes';
    await question.prints(`Delete server two${agent}? [y/N] `);
    question.type('n\r');
    expect(await question.ended()).toMatchObject({ code: 1, out: expect.stringContaining('Nothing was changed') });
    const left = town.cli.atTerminal(['delete', 'server', 'two', '--force']);
    await left.prints(
      `Delete server two, also with applications, databases, functions and volumes on it${agent}? [y/N] `,
    );
    left.type('\u0003');
    expect(await left.ended()).toMatchObject({ code: 1, out: expect.stringContaining('Nothing was changed') });
    const answered = town.cli.atTerminal(['delete', 'server', 'two']);
    await answered.prints('[y/N] ');
    answered.type('y\r');
    expect(await answered.ended()).toMatchObject({ code: 0, out: expect.stringContaining('server two is deleted') });

    const second = ['register', '--server', town.url, '--email', 'second@example.test'];
    expect((await town.cli.run(second, 'another password\n')).code).toBe(1);
  });

  it.concurrent('every kind is listed in columns, or as JSON', async () => {
    expect((await run('get', 'servers')).out).toMatch(
      /^NAME +STATUS +AGENT +AGE +ID\none +active +connected +\d+[smhd] +[0-9a-f-]{36}\n/,
    );
    expect((await run('get', 'environments', '--project', 'shop')).out).toMatch(
      /^NAME +PROJECT +STATUS +AGE +ID\n[^]*^production +shop +active /m,
    );
    const projects: unknown = JSON.parse((await run('get', 'projects', '-o', 'json')).out);
    expect(projects).toContainEqual(expect.objectContaining({ name: 'shop', status: 'active' }));
    expect(await run('get', 'things')).toMatchObject({
      code: 1,
      out: '',
      err: 'Unknown kind things: one of projects, environments, servers, applications, deployments, databases, functions, runs, volumes, backups, backup-schedules, restores, ssh-keys, git-credentials, git-webhooks, previews, templates, template-instances, syncs, registries, backup-destinations\n',
    });
    expect((await run('get', 'projects', 'shpo')).err).toMatch(/^No project is called shpo: there is .*shop/);
  });

  it.concurrent(
    'the audit log is listed, and verified, also with a head that was noted',
    { tags: [longTag] },
    async () => {
      const listed = await run('audit', 'list', '--project', 'shop');
      expect(listed.out).toMatch(/^AT +WHO +FROM +ROUTE +RESULT +OBJECTS\n/);
      expect(listed.out).toMatch(/owner@example\.test +127\.0\.0\.1 +POST \/projects +ok +project shop/);
      const verified = /its head is (\d+:[0-9a-f]{64})\n$/;
      let out = '';
      await until('the log is chained', async () => verified.test((out = (await run('audit', 'verify')).out)));
      const [, head = ''] = verified.exec(out) ?? [];
      expect((await run('audit', 'verify', '--known', head)).out).toMatch(verified);
      const other = head.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
      expect(await run('audit', 'verify', '--known', other)).toEqual({
        code: 1,
        out: '',
        err: `The audit log is not as it was written, from record ${head.split(':')[0]} on: The record is not the one that was noted. Compare it with a backup of the store from before\n`,
      });
      expect((await run('audit', 'verify', '--known', 'nonsense')).err).toMatch(/^A head is a number and a hash/);
      expect((await run('audit', 'burn')).err).toBe('Cannot burn the audit log: list or verify it\n');
    },
  );

  it.concurrent('a file is applied once, shows what changes, and changes nothing when it is applied again', async () => {
    const env = { GREETING: 'a hidden greeting' };
    const first = await applied('web', { env });
    const followed = 'queued\n(deploying\n)?(  Pulling image .*\n  Pulled image .*\n)?succeeded\n$';
    expect(first).toEqual(output(`^application web created\nDeployment 1 of web: ${followed}`));
    expect(await applied('web', { env })).toEqual(output('^application web unchanged\n$'));

    const other = {
      env: { GREETING: 'another hidden one', MORE: 'x' },
      memory_limit: '128m',
      image_url: 'ghcr.io/web:2',
    };
    const lines = [
      '  image_url: ghcr.io/web:1 → ghcr.io/web:2',
      '  memory_limit: none → 128m',
      '  env.GREETING: changes',
      '  env.MORE: is set',
    ].join('\n');
    expect(await applied('web', other, '--dry-run')).toEqual({
      code: 0,
      out: `application web would be changed\n${lines}\n`,
      err: '',
    });
    expect(await applied('web', { env }, '--dry-run')).toEqual(output('^application web unchanged\n$'));
    const changed = await applied('web', other);
    expect(changed).toEqual(output(`^application web changed\n${lines}\nDeployment \\d of web: ${followed}`));
    expect(changed.out).not.toContain('hidden');

    const gone = await applied('web', { ...other, image_url: 'ghcr.io/web:missing' });
    expect(gone.code).toBe(1);
    expect(gone.err).toMatch(/^Deployment 4 failed: Cannot pull image ghcr.io\/web:missing/);
    const retried = await applied('web', { ...other, image_url: 'ghcr.io/web:missing' });
    expect(retried.out).toMatch(/^application web unchanged\nweb is deployed, as its newest deployment 4 is failed\n/);
    expect(retried).toMatchObject({ code: 1, err: expect.stringMatching(/^Deployment 5 failed: Cannot pull image/) });
    const described = await run('describe', 'application', 'web');
    expect(described.out).toMatch(/status +running/);
    expect(described.out).toMatch(/\nNot now\nverb +reason\nStart +The application runs already\n/i);
    expect(described.out).not.toContain('hidden');
  });

  it.concurrent('a file that is none is refused with its line, and creates nothing', async () => {
    const broken = await town.cli.file('broken.yaml', 'apiVersion: setpoint/v1\nkind: [\n');
    const syntax = await run('apply', '-f', broken);
    expect(syntax).toMatchObject({ code: 1, out: '' });
    expect(syntax.err).toMatch(/broken\.yaml: .*at line 3, column 1/);
    const wrong = await town.cli.file(
      'wrong.yaml',
      'apiVersion: setpoint/v1\nkind: Application\nmetadata:\n  name: wrong\nspec:\n  project: shop\n  server: one\n' +
        '  source_type: git\n  replicas: many\n  colour: red\n',
    );
    const schema = await run('apply', '-f', wrong);
    expect(schema).toMatchObject({ code: 1, out: '' });
    expect(schema.err).toContain('line 9, column 13: spec.replicas must be a number');
    expect(schema.err).toContain('line 10, column 11: Unknown field spec.colour');
    expect((await run('apply', '-f', '/none')).err).toContain('Cannot read /none');
    const elsewhere = await applied('elsewhere', { project: 'none' });
    expect(elsewhere).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^No project is called none: there is .*shop/),
    });
    const refused = await applied('refused', { memory_limit: 'lots' });
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toMatch(/^application refused is not created: memory_limit must be /);
    const many = await applied('refused', { replicas: 1000 }, '--dry-run');
    expect(many).toEqual(output('^application refused would be created\n$'));
  });

  it.concurrent('a file is applied without a deployment, which is started by itself later', async () => {
    expect(await applied('shop-sill', {}, '--no-deploy')).toEqual(output('^application shop-sill created\n$'));
    expect((await run('describe', 'application', 'shop-sill')).out).toMatch(/status +stopped/);
    const image = { image_url: 'ghcr.io/web:2' };
    const changed = await applied('shop-sill', image, '--no-deploy');
    expect(changed).toEqual(output('^application shop-sill changed\n  image_url: .*\n$'));
    expect(await run('deploy', 'shop-sill')).toMatchObject({ code: 0, out: expect.stringMatching(/succeeded\n$/) });
  });

  it.concurrent(
    'what a file changes is said once it is so, and of what is refused that nothing is',
    { tags: [longTag] },
    async () => {
      expect((await applied('shop-door')).code).toBe(0);
      expect(await applied('shop-door', { image_url: 'other.test/web:1', memory_limit: '256m' })).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringMatching(
          /^application shop-door is not changed: Images of registry other\.test are not allowed/,
        ),
      });
      expect(await applied('shop-door', {}, '--dry-run')).toEqual(output('^application shop-door unchanged\n$'));
    },
  );

  it.concurrent('of several that bear a name each is shown with its place', { tags: [longTag] }, async () => {
    expect((await run('create', 'environment', 'twin', '--project', 'shop')).code).toBe(0);
    expect((await applied('shop-twin', {}, '--no-wait')).code).toBe(0);
    expect((await applied('shop-twin', { environment: 'twin' }, '--no-wait')).code).toBe(0);
    const { err } = await run('stop', 'shop-twin', '--project', 'shop');
    expect(err).toMatch(/^Several applications are called shop-twin: name one by its id, /);
    const [, id = ''] = /(\S+) \(shop\/twin\)/.exec(err) ?? [];
    expect(err).toContain('(shop/production)');
    expect((await run('describe', 'application', id)).out).toMatch(/^name +shop-twin$/m);
    const listed = (await run('get', 'applications', '--project', 'shop')).out;
    expect(listed).toMatch(/^NAME +PROJECT +ENVIRONMENT +STATUS +INSTANCES +READY +AGE +ID\n/);
    expect(listed).toMatch(new RegExp(`^shop-twin +shop +twin .* ${id}$`, 'm'));
    expect(listed).toMatch(/^shop-twin +shop +production /m);
  });

  it.concurrent('variables that are changed are followed until they are rolled out', { tags: [longTag] }, async () => {
    expect((await applied('shop-bell')).code).toBe(0);
    const rolledOut = (number: number) => `Deployment ${number} of shop-bell: (queued\n)?(deploying\n)?succeeded\n$`;
    const sets = ['env', 'set', 'shop-bell', 'TONE=high'];
    expect(await run(...sets)).toEqual(output(`^1 variable\\(s\\) of shop-bell set\n${rolledOut(2)}`));
    expect(await run(...sets)).toEqual(output('^1 variable\\(s\\) of shop-bell set\n$'));
    expect(await run('env', 'unset', 'shop-bell', 'TONE')).toEqual(
      output(`^1 variable\\(s\\) of shop-bell removed\n${rolledOut(3)}`),
    );
    expect(await run('env', 'set', 'shop-bell', 'TONE=low', '--no-wait')).toEqual(
      output('^1 variable\\(s\\) of shop-bell set\nDeployment 4 of shop-bell: \\w+\n$'),
    );
  });

  it.concurrent('an application is stopped, scaled and restarted', async () => {
    expect((await applied('shop-sign')).code).toBe(0);
    expect(await run('stop', 'shop-sign')).toEqual(output('^shop-sign is stopped\n$'));
    expect(await run('restart', 'shop-sign')).toMatchObject({
      code: 1,
      err: 'Cannot restart as the application is stopped: start it\n',
    });
    expect(await run('start', 'shop-sign')).toEqual(output('^shop-sign is running, 1 of 1 ready\n$'));
    expect(await run('scale', 'shop-sign', '2')).toEqual(output('^shop-sign is running, 2 of 2 ready\n$'));
    for (const wrong of ['two', '101', '-1'])
      expect((await run('scale', 'shop-sign', '--', wrong)).err).toContain(`must be 0 to 100: got ${wrong}`);
    expect(await run('restart', 'shop-sign')).toEqual(output('^shop-sign is running, 2 of 2 ready\n$'));
  });

  it.concurrent('a restart that is waited for says that another instance covers it', { tags: [longTag] }, async () => {
    // an instance is ready after so long, so that the command has to wait
    const slow = { healthcheck: { type: 'none' }, healthcheck_path: undefined, min_healthy_seconds: 6 };
    expect((await applied('shop-clock', slow)).code).toBe(0);
    expect(await run('restart', 'shop-clock')).toEqual(
      output(
        '^shop-clock is running, 1 of 1 ready\n$',
        '… 1 of 1 instances are not ready yet, and others serve in their place\n',
      ),
    );
  });

  it.concurrent('a volume is created, bound, shown, unbound and deleted', { tags: [longTag] }, async () => {
    expect((await applied('shop-safe')).code).toBe(0);
    expect(await run('create', 'volume', 'coins', '--project', 'shop', '--on', 'one')).toEqual(
      output('^volume coins is created\n$'),
    );
    expect(await run('bind', 'coins', 'shop-safe', 'data')).toMatchObject({ code: 1 });
    expect(await run('bind', 'coins', 'shop-safe', '/data')).toEqual(
      output('^shop-safe mounts volume coins at /data\n$'),
    );
    // what mounts it runs by now: both can be used at once
    expect((await run('get', 'volumes')).out).toMatch(/coins +shop +production +bound +\/data/);
    expect((await run('get', 'applications')).out).toMatch(/shop-safe .* running /);
    expect((await run('describe', 'volume', 'coins')).out).toMatch(/Bound +[^]*Events, newest first/);
    expect((await run('events', 'volume', 'coins')).out).toContain('Bound');
    expect((await run('delete', 'volume', 'coins', '--yes')).err).toContain('The volume is mounted (1 application)');
    expect(await run('unbind', 'coins')).toEqual(output('^volume coins is mounted by nothing; its data stays\n$'));
    expect(await run('delete', 'volume', 'coins', '--yes')).toEqual(output('^volume coins is deleted\n$'));
  });

  it.concurrent('an application is rolled back and deleted', async () => {
    expect((await applied('shop-window')).code).toBe(0);
    expect((await run('rollback', 'shop-window')).err).toBe('There is no earlier successful deployment to return to\n');
    expect((await run('deploy', 'shop-window')).code).toBe(0);
    const back = await run('rollback', 'shop-window');
    expect(back).toEqual(output('^Deployment 3 of shop-window: queued\n(deploying\n)?succeeded\n$'));

    const listed = await run('get', 'deployments');
    expect(listed.out).toMatch(/^APPLICATION +NUMBER +STATUS +TRIGGER +CURRENT +COMMIT +AGE +ID\n/);
    expect(listed.out).toMatch(/shop-window +3 +succeeded +rollback +yes /);
    expect((await run('get', 'deployments', 'shop-window')).out.trim().split('\n')).toHaveLength(4);
    expect((await run('get', 'deployments', 'shop-window/2')).out.trim().split('\n')).toHaveLength(2);
    const newest = await run('describe', 'deployment', 'shop-window');
    expect(newest.out).toMatch(/number +3\n/);
    expect(newest.out).toContain('Settled: there is nothing left to do.');
    const second = await run('describe', 'deployment', 'shop-window/2');
    expect(second.out).toMatch(/number +2\n/);
    const id = /^id +(\S+)$/m.exec(second.out)?.[1] ?? '';
    expect((await run('describe', 'deployment', id)).out).toMatch(/number +2\n/);
    expect((await run('describe', 'deployment', 'shop-window/9')).err).toBe('shop-window has no deployment 9\n');

    const { out } = await run('describe', 'application', 'shop-window');
    const order = [...out.matchAll(/DeploymentSucceeded +1 +Deployment (\d) succeeded/g)].map(([, number]) => number);
    expect(order).toEqual(['3', '2', '1']);

    const asked = await run('delete', 'application', 'shop-window');
    expect(asked).toMatchObject({ code: 1, out: '' });
    expect(asked.err).toContain('Delete application shop-window');
    expect(asked.err).toContain('--yes');
    expect(await run('delete', 'application', 'shop-window', '--yes')).toEqual(
      output('^application shop-window is deleted\n$'),
    );
    expect((await run('describe', 'application', 'shop-window')).code).toBe(1);
  });

  it.concurrent('what fails is shown with its reason, what lasts with what it waits for', async () => {
    const failing = await applied('failing', { image_url: 'ghcr.io/web:crashing' });
    expect(failing).toMatchObject({ code: 1, out: expect.stringContaining('application failing created') });
    expect(failing.err).toMatch(/^Deployment 1 failed: .*Cannot start/);
    expect((await run('start', 'failing')).code).toBe(1);

    expect((await applied('waiting', { min_healthy_seconds: 120 }, '--no-wait')).code).toBe(0);
    const watched = await run('describe', 'application', 'waiting');
    expect(watched.out).toContain('\nWaits for deployment 1 to end\n');
    const deployment = await run('describe', 'deployment', 'waiting');
    expect(deployment.out).toMatch(/\nWaits for its (server to take it up|instances to be ready and to stay so)\n/);
  });

  it.concurrent('the output of an application is printed, and followed until it is interrupted', async () => {
    expect((await applied('talking')).code).toBe(0);
    const printed = await run('logs', 'talking');
    expect(printed).toEqual(output('^\\d{4}-\\S+Z Listening\n$'));
    const following = town.cli.start(['logs', 'talking', '--follow']);
    await following.prints('Listening');
    const ofService = town.cli.start(['logs', 'talking', '--follow', '--service', 'main']);
    await ofService.prints('Listening');
    expect((await run('restart', 'talking')).code).toBe(0);
    await following.prints(/Listening\n[^]*Listening\n/);
    expect(await following.interrupt()).toMatchObject({ code: 0, err: '' });
    await ofService.prints(/Listening\n[^]*Listening\n/);
    expect(await ofService.interrupt()).toMatchObject({ code: 0, err: '' });
    expect((await run('logs', 'talking', '--follow', '--previous')).err).toContain('leave out --previous');
    expect((await run('logs', 'talking', '--tail', 'few')).err).toContain('It must be a number of lines');
    expect(await run('logs', 'talking', '--search', 'of nothing')).toEqual(output('^$'));
    expect((await run('logs', 'application', 'talking', '--tail', '1')).out).toMatch(/^\S+Z Listening\n$/);
  });

  it.concurrent(
    'the output of a server is printed with what wrote it, and that of all applications is followed',
    { tags: [longTag] },
    async () => {
      expect((await applied('chatting')).code).toBe(0);
      // Other tests make servers, too.
      const chatting = (await town.client.list('/api/v1/applications')).find((it) => it.name === 'chatting');
      const { server_id } = z.object({ server_id: z.string() }).parse(chatting);
      const { name } = z
        .object({ name: z.string() })
        .parse(await town.client.object('GET', `/api/v1/servers/${server_id}`));
      const printed = await run('logs', 'server', name, '--search', 'Listening');
      expect(printed.out).toMatch(/^\S+Z chatting Listening$/m);
      const own = await run('logs', 'server', name, '--source', 'agent');
      expect(own.out).toMatch(/^\S+Z agent Agent started \{"server":"/m);
      const whole = town.cli.start(['logs', 'server', name, '-f', '--tail', '500']);
      await whole.prints('chatting Listening');
      await whole.prints(/Z agent Agent started/);
      expect((await run('restart', 'chatting')).code).toBe(0);
      await whole.prints(/chatting Listening\n[^]*chatting Listening\n/);
      expect((await whole.interrupt()).code).toBe(0);
      expect((await run('logs')).err).toContain('Name an application or a server');
      const following = town.cli.start(['logs', '--follow', '--tail', '500']);
      await following.prints('chatting Listening');
      expect((await run('restart', 'chatting')).code).toBe(0);
      await following.prints(/chatting Listening\n[^]*chatting Listening\n/);
      expect((await following.interrupt()).code).toBe(0);
    },
  );

  it.concurrent('a watch prints every change in the columns of its list, until it is interrupted', async () => {
    const watching = town.cli.start(['get', 'applications', '--watch']);
    await watching.prints('INSTANCES');
    expect((await applied('watched')).code).toBe(0);
    expect((await run('stop', 'watched')).code).toBe(0);
    await watching.prints(/watched +shop +production +stopped +0\/1 +Stopped /);
    expect((await run('delete', 'application', 'watched', '--yes')).code).toBe(0);
    await watching.prints(/watched +shop +production +deleted /);
    const { code, out, err } = await watching.interrupt();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const [head = '', ...rows] = out.trimEnd().split('\n');
    const of = rows.filter((row) => row.startsWith('watched '));
    expect(
      new Set([head, ...of].map((row) => row.search(/STATUS|stopped|deploying|running|deleting|deleted/))).size,
    ).toBe(1);
    expect(of.some((row) => /running +1\/1 +yes /.test(row))).toBe(true);
    const tellings = of.map((row) => row.replace(/ \d+s +/, ' '));
    expect(tellings.every((row, at) => row !== tellings[at - 1])).toBe(true);
  });

  it.concurrent('an agent whose join token was replaced logs what to do', async () => {
    const created = (await run('create', 'server', 'three')).out;
    const old = /SETPOINT_JOIN_TOKEN=(\S+)/.exec(created)?.[1] ?? '';
    const address = /--server (\S+)$/m.exec(created)?.[1] ?? '';
    await run('join', 'three');
    const agent = town.cli.start([
      'agent',
      '--server',
      address,
      '--token',
      old,
      '--data',
      join(town.cli.home, 'three'),
      '--runtime',
      'mock',
    ]);
    await agent.prints('setpoint join');
    expect(agent.out()).toContain('The join token is used, expired or replaced');
    expect(agent.out()).not.toContain(old);
    expect(await agent.interrupt()).toMatchObject({ code: 0 });
  });

  it.concurrent('what waits is ended by an interrupt, and what it asked for goes on', { tags: [longTag] }, async () => {
    // each instance is ready after so long, so that a command has to wait
    const slow = { healthcheck: { type: 'none' }, healthcheck_path: undefined, min_healthy_seconds: 10 };
    const file = await town.cli.file('going-on.json', manifest('going-on', slow));
    const deploying = town.cli.start(['apply', '-f', file]);
    await deploying.prints('deploying');
    expect(await deploying.interrupt()).toMatchObject({
      code: 1,
      err: expect.stringContaining('Deployment 1 goes on'),
    });
    const scaling = town.cli.start(['scale', 'going-on', '3']);
    await until('it is scaled', async () => {
      const all = await town.client.list('/api/v1/applications');
      return all.find((it) => it.name === 'going-on')?.['replicas'] === 3;
    });
    expect(await scaling.interrupt()).toEqual({ code: 1, out: '', err: 'Stopped by SIGINT\n' });
    await until('it runs', async () => {
      const all = await town.client.list('/api/v1/applications');
      return all.find((it) => it.name === 'going-on')?.['ready_replicas'] === 3;
    });
  });

  it.concurrent('a stream that is refused says why, in the words of the server', async () => {
    const watch = await run('get', 'servers', '--watch', '--token', 'sp_none');
    expect(watch).toMatchObject({ code: 1, out: '' });
    expect(watch.err).not.toMatch(/refused with \d+/);
    expect(watch.err).toContain('setpoint login');
  });

  it.concurrent('a compose file is checked', async () => {
    const web = 'services:\n  web:\n    image: nginx:${TAG:-1}\n';
    const checked = await town.cli.run(
      ['compose', 'check', '-', '--env', 'TAG=1.27', '--env', 'OTHER=a=b'],
      `${web}    restart: always\n    ports: ["8080:80"]\n`,
    );
    expect(checked).toMatchObject({ code: 0, err: '' });
    expect(checked.out).toMatch(/^web +nginx:1\.27 +1 +8080:80 +always$/m);
    const refused = await town.cli.run(['compose', 'check', '-'], `${web}    pid: host\n`);
    expect(refused).toMatchObject({ code: 1, err: '' });
    expect(refused.out).toContain('-:4:10: error: services.web.pid is refused');
    expect(refused.out).toContain('warning: services.web has no restart');
  });

  it.concurrent('settings are shown, set by name, and returned to their defaults', async () => {
    expect((await run('limits')).out).toMatch(
      /^tenant +\d+(\.\d)? MiB of \d+(\.\d)? MiB .* \d+ of 100000 +\d+ of 14400$/m,
    );
    expect((await run('settings', 'get')).out).toMatch(/^registries +docker\.io, ghcr\.io, /m);
    const set = await run(
      'settings',
      'set',
      'new_addresses=users',
      'budgets.project.objects=9000',
      'registries=ghcr.io,b.test',
    );
    expect(set).toEqual(output('^SETTING +VALUE\nproject_creation +users\nnew_addresses +users\n'));
    expect(set.out).toMatch(/^registries +ghcr\.io, b\.test$/m);
    expect(set.out).toMatch(/^budgets\.project\.objects +9000$/m);
    const back = await run('settings', 'set', 'new_addresses=', 'budgets.project.objects=', 'registries=');
    expect(back.out).toBe((await run('settings', 'get')).out);
    expect(back.out).toMatch(/^new_addresses +admins\nserver_terminals +admins\nregistries +docker\.io, /m);
    expect((await run('settings', 'set', 'new_addresses')).err).toContain('A setting is NAME=VALUE');
    expect((await run('settings', 'set')).err).toContain('Nothing to set');
    expect((await run('settings', 'burn')).err).toContain('Cannot burn');
    expect((await run('settings', 'set', 'new_addresses=nobody')).code).toBe(1);
  });

  it.concurrent('tenants are made and listed beside the server, and nowhere else', async () => {
    expect(await run('tenant', 'create', 'acme', '--data', town.data)).toEqual(
      output(`^Tenant acme is there: its address is ${town.url}/acme\n$`),
    );
    const listed = await run('tenant', 'list', '--data', town.data);
    expect(listed.out).toMatch(/^NAME +STATE +CREATED +WAITS FOR\nacme +active /);
    expect(listed.out).toMatch(/^default /m);
    expect((await run('tenant', 'create', 'Not A Name', '--data', town.data)).code).toBe(1);
    expect((await run('tenant', 'list', '--data', '/none')).err).toBe(
      'There is no /none/admin.json: run this beside a server, with the --data of a running server\n',
    );
  });
});
