import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Printed } from '../harness/command-line.ts';
import { Town } from '../harness/command-line.ts';
import { github } from '../harness/git-hosts.ts';
import { testRepositories, type TestRepositories } from '../harness/git-server.ts';
import { privateRegistry, type PrivateRegistry } from '../harness/private-registry.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 180_000 });

let town: Town;
let repositories: TestRepositories;
let registry: PrivateRegistry;

beforeAll(async () => {
  [town, repositories, registry] = await Promise.all([Town.start(), testRepositories(), privateRegistry()]);
  await town.login();
});
afterAll(async () => {
  await registry[Symbol.asyncDispose]();
  await repositories[Symbol.asyncDispose]();
  await town[Symbol.asyncDispose]();
});

const run = (...argv: string[]) => town.cli.run(argv);
const applied = (name: string, spec: object, ...flags: string[]): Promise<Printed> => {
  const place = { project: 'shop', server: 'one', source_type: 'image' };
  const manifest = { apiVersion: 'setpoint/v1', kind: 'Application', metadata: { name }, spec: { ...place, ...spec } };
  return town.cli.run(['apply', '-f', '-', ...flags], JSON.stringify(manifest));
};
const failure = (err: string) => ({ code: 1, out: '', err: expect.stringContaining(err) });

it(
  'a rollback to a number returns to that deployment, and a description has what differs without secrets',
  { tags: [longTag] },
  async () => {
    const image = (tag: number, more: object = {}) =>
      applied('back', {
        image_url: `ghcr.io/team/back:${tag}`,
        env: { WORD: `hidden-${tag}` },
        min_healthy_seconds: 0,
        drain_seconds: 0,
        ...more,
      });
    expect((await image(1)).code).toBe(0);
    expect((await image(2, { memory_limit: '128m' })).code).toBe(0);
    const changesOf = async (number: number): Promise<unknown> => {
      const { out } = await run('describe', 'deployment', `back/${number}`, '--output', 'json');
      expect(out).not.toContain('hidden');
      return (JSON.parse(out) as Record<string, unknown>)['changes'];
    };
    // the change of the configuration is rolled out by itself, and then the other image is deployed
    expect(await changesOf(1)).toBeNull();
    expect(await changesOf(2)).toEqual([
      { field: 'env.WORD', change: 'changed', before: null, after: null },
      { field: 'memory_limit', change: 'added', before: null, after: '128m' },
    ]);
    expect(await changesOf(3)).toEqual([
      { field: 'image_url', change: 'changed', before: 'ghcr.io/team/back:1', after: 'ghcr.io/team/back:2' },
    ]);
    expect((await run('describe', 'deployment', 'back/2')).out).toMatch(/^changes +.*"field":"memory_limit"/m);
    expect(await run('rollback', 'back', '--to', '9')).toEqual(
      failure('There is no deployment 9 of back: kept are 3, 2, 1'),
    );
    const back = await run('rollback', 'back', '--to', '1');
    expect([back.code, back.err]).toEqual([0, '']);
    expect(back.out).toMatch(/^Deployment 4 of back: queued\n[^]*succeeded\n$/);
    const now = await run('describe', 'deployment', 'back', '--output', 'json');
    expect(JSON.parse(now.out)).toMatchObject({ image: 'ghcr.io/team/back:1', trigger: 'rollback' });
  },
);

it('a generated Dockerfile is printed with its reasons apart, and written once', async () => {
  const repository = await repositories.create('site');
  await repository.commit({ 'index.html': '<p>hello</p>' });
  const source = {
    source_type: 'git',
    repository_url: repository.fileUrl,
    branch: 'main',
    dockerfile_path: 'auto',
    exposed_port: 8080,
  };
  expect((await applied('site', source, '--no-deploy')).code).toBe(0);
  const shown = await run('dockerfile', 'site');
  expect(shown).toMatchObject({ code: 0, err: expect.stringMatching(/Left out of the build, as by .dockerignore: /) });
  expect(shown.out).toMatch(/^FROM /m);
  const file = join(town.cli.home, 'Dockerfile');
  const written = await run('dockerfile', 'site', '--output', file);
  expect(written.out).toMatch(/Dockerfile is written, for commit [0-9a-f]{8}: commit it and set dockerfile_path/);
  expect(await readFile(file, 'utf8')).toBe(shown.out);
  expect(await run('dockerfile', 'site', '--output', file)).toEqual({
    code: 1,
    out: '',
    err: expect.stringContaining(`Cannot write ${file}: it exists already: name another one, or remove it`),
  });
});

it('a registry is kept once its login has succeeded, tried, changed, and named by an application', async () => {
  await town.client.request('PUT', '/api/v1/settings', { registries: [registry.address, 'ghcr.io'] });
  const create = ['create', 'registry', 'team', '--address', registry.address, '--username', registry.username];
  expect(await run('create', 'registry', 'team')).toEqual(failure('name them by --address and --username'));
  expect(await town.cli.run(create, 'not this one\n')).toEqual(failure('refuses this user name and password'));
  expect(await town.cli.run(create, `${registry.password}\n`)).toEqual({
    code: 0,
    out: 'registry team is created: the login succeeded\n',
    err: '',
  });
  const tried = { code: 0, out: `The login to registry ${registry.address} succeeded\n`, err: '' };
  expect(await run('test', 'registry', 'team')).toEqual(tried);
  expect(await run('test', 'server', 'one')).toEqual(failure('Only a registry is tested'));
  const change = ['set', 'registry', 'team', '--password', '--untested'];
  expect((await town.cli.run(change, 'not this one\n')).code).toBe(0);
  expect(await run('test', 'registry', 'team')).toEqual(failure('refuses this user name and password'));
  const source = { image_url: `${registry.address}/team/web:1`, registry: 'team' };
  expect((await applied('private', source, '--no-deploy')).code).toBe(0);
  expect((await applied('private', source, '--no-deploy')).out).toBe('application private unchanged\n');
  expect((await run('get', 'registries')).out).toMatch(new RegExp(`team +${registry.address} +reader +1 `));
  expect(await run('delete', 'registry', 'team', '--yes')).toEqual(failure('is used by private'));
});

it('domains are added, listed, removed, and declared', async () => {
  const source = { image_url: 'ghcr.io/team/web:1', exposed_port: 8080 };
  expect((await applied('named', source, '--no-deploy')).code).toBe(0);
  expect((await run('domains', 'list', 'named')).out).toBe('No domain leads to it\n');
  const add = ['domains', 'add', 'named'];
  expect(await run(...add, 'WWW.example.test')).toEqual({
    code: 0,
    out: 'WWW.example.test leads to named\n',
    err: '',
  });
  expect((await run(...add, 'www.example.test/old/', '--redirect-to', 'https://old.example.test')).code).toBe(0);
  expect((await run(...add, 'in.example.test', '--port', '8080', '--tls', 'internal')).code).toBe(0);
  expect(await run(...add, 'www.example.test')).toEqual(failure('www.example.test'));
  expect((await run('domains', 'list', 'named')).out).toMatch(
    /^ADDRESS +LEADS TO +TLS\nwww.example.test +the application +on\nwww.example.test\/old +https:\/\/old.example.test +on\nin.example.test +8080 +internal\n$/,
  );
  const domains = [
    { host: 'Www.example.test' },
    { host: 'www.example.test', path: '/old/', redirect_to: 'https://old.example.test' },
    { host: 'in.example.test', port: 8080, tls: 'internal' },
  ];
  expect((await applied('named', { ...source, domains }, '--no-deploy')).out).toBe('application named unchanged\n');
  expect(await run('domains', 'remove', 'named', 'other.example.test')).toEqual(
    failure('`setpoint domains list named`'),
  );
  expect(await run('domains', 'remove', 'named', 'www.example.test/old/')).toMatchObject({ code: 0 });
  expect((await applied('named', { ...source, domains }, '--no-deploy', '--dry-run')).out).toBe(
    'application named would be changed\n  domains: www.example.test/, in.example.test/ → Www.example.test, www.example.test/old/, in.example.test\n',
  );
  const guarded = [{ host: 'in.example.test', basic_auth: [{ username: 'ann', password: 'sesame of ann' }] }];
  expect((await applied('named', { ...source, domains: guarded }, '--no-deploy')).out).toContain('domains: ');
  const again = await applied('named', { ...source, domains: guarded }, '--no-deploy');
  expect(again.out).toContain('domains: may change: the server does not show passwords');
  expect(again.out).not.toContain('sesame');
  expect(await run('domains', 'burn', 'named')).toEqual(failure('Cannot burn domains: list, add or remove'));
});

it('the deliveries of a webhook are shown with what was decided, and decided again', { tags: [longTag] }, async () => {
  const url = 'https://git.example.test/team/shop.git';
  const made = await run(
    'create',
    'git-webhook',
    'pushes',
    '--project',
    'shop',
    '--provider',
    'github',
    '--repository',
    url,
  );
  expect([made.code, made.err]).toEqual([0, '']);
  const [, address = '', secret = ''] = /\n {2}(\S+)\n.*\n {2}(\S+)\n$/.exec(made.out) ?? [];
  expect(await run('replay', 'pushes')).toEqual(failure('webhook pushes was never called'));
  expect((await run('deliveries', 'pushes')).out).toBe('webhook pushes was never called\n');
  const push = { url, ref: 'refs/heads/main', before: 'a'.repeat(40), after: 'b'.repeat(40) };
  const { body, headers } = github(push, secret);
  expect((await fetch(address, { method: 'POST', body, headers })).status).toBe(200);
  const shown = await until('the delivery is decided', async () => {
    const { out } = await run('deliveries', 'pushes');
    return /no_application/.test(out) && out;
  });
  expect(shown).toMatch(
    /^AGE +EVENT +REF +APPLICATION +DECISION +ID +MESSAGE\n.* push +refs\/heads\/main .* no_application .* No application of the project has /,
  );
  const replayed = await run('replay', 'pushes');
  expect([replayed.code, replayed.err]).toEqual([0, '']);
  expect(replayed.out).toMatch(/^No application of the project has this repository and branch/);
  expect(JSON.parse((await run('deliveries', 'pushes', '--output', 'json')).out)).toHaveLength(2);
});

it('the example of private sources declares what the server takes', { tags: [longTag] }, async () => {
  const example = await readFile(new URL('../../manifests/examples/private.yaml', import.meta.url), 'utf8');
  const file = await town.cli.file(
    'private.yaml',
    example.replaceAll('project: demo', 'project: shop').replaceAll('server: local', 'server: one'),
  );
  await town.client.request('PUT', '/api/v1/settings', { registries: ['registry.example.com', 'ghcr.io'] });
  const registryOf = ['create', 'registry', 'example', '--address', 'registry.example.com', '--username', 'reader'];
  await town.cli.run([...registryOf, '--untested'], 'a password\n');
  await town.cli.run(['create', 'git-credential', 'lab', '--host', 'git.example.com', '--access-token'], 'a token\n');
  const named = (await readFile(file, 'utf8')).replace('registry: team', 'registry: example');
  const apply = ['apply', '--file', '-', '--no-deploy'];
  const first = await town.cli.run(apply, named);
  expect(first).toEqual({ code: 0, out: 'application shop created\napplication pictures created\n', err: '' });
  const second = await town.cli.run(apply, named);
  expect(second.out).toBe('application shop unchanged\napplication pictures unchanged\n');
});
