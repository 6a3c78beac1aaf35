import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Town } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 180_000 });

let town: Town;
const run = (...argv: string[]) => town.cli.run(argv);
const output = (out: string) => ({ code: 0, out: expect.stringMatching(out), err: '' });
const failed = (err: string) => ({ code: 1, out: '', err: `${err}\n` });

beforeAll(async () => {
  town = await Town.start();
  expect((await town.login()).code).toBe(0);
});
afterAll(() => town[Symbol.asyncDispose]());

describe('a database', () => {
  it('is created, shown, stopped, started, restarted and deleted with its data', async () => {
    const where = ['--project', 'shop', '--on', 'one'];
    const made = ['--type', 'postgres', '--engine-version', '16', '--memory', '512m', '--cpus', '0.5'];
    const connections = ['--exposed', '20001', '--pooling', '--require-tls'];
    expect(await run('create', 'database', 'orders', ...where, ...made, ...connections)).toEqual(
      output('^database orders is created\n$'),
    );
    expect(await run('db', 'start', 'orders')).toEqual(output('^database orders is running\n$'));
    expect((await run('get', 'databases')).out).toMatch(
      /^NAME +PROJECT +ENVIRONMENT +TYPE +VERSION +BACKUPS +STATUS +AGE +ID\norders +shop +production +postgres +16 +none +running /,
    );
    const described = (await run('describe', 'db', 'orders')).out;
    expect(described).toMatch(/Ready +[^]*PostgreSQL answers queries[^]*Events, newest first/);
    expect(described).toMatch(/memory_limit +512m\n/);
    expect(described).toMatch(/exposed_port +20001\n/);
    const pooled = async () => (await run('db', 'credentials', 'orders')).out.includes('pooled      postgresql://app:');
    expect((await run('db', 'credentials', 'orders')).out).toMatch(
      /\ninside .*\?sslmode=require\n[^]*\nca\n-----BEGIN CERTIFICATE-----\n[^]*\n-----END CERTIFICATE-----\n$/,
    );
    const off = ['--pooling', 'off', '--require-tls', 'off'];
    expect([await pooled(), (await run('set', 'database', 'orders', ...off)).code]).toEqual([true, 0]);
    expect(await pooled()).toBe(false);
    expect((await run('describe', 'db', 'orders')).out).toMatch(/require_tls +(false|no)\n/);
    const none = ['--exposed', 'none', '--cpus', 'none'];
    expect(await run('set', 'database', 'orders', '--memory', '640m', ...none)).toEqual(
      output('^database orders is changed\n$'),
    );
    const changed = (await run('describe', 'db', 'orders')).out;
    expect(changed).toMatch(/memory_limit +640m\n/);
    expect(changed).not.toContain('20001');
    expect((await run('events', 'database', 'orders')).out).toContain('PostgreSQL answers queries');

    expect(await run('db', 'stop', 'orders')).toEqual(output('^database orders is stopped\n$'));
    expect(await run('db', 'restart', 'orders')).toEqual(failed('Cannot restart as the database is stopped: start it'));
    expect(await run('db', 'start', 'orders')).toEqual(output('^database orders is running\n$'));
    expect(await run('db', 'restart', 'orders')).toEqual(output('^database orders is running\n$'));
    expect(await run('db', 'stop', 'orders', '--no-wait')).toEqual(output('^database orders is (running|stopped)\n$'));

    expect((await run('get', 'volumes')).out).toMatch(/orders +shop/);
    expect(await run('delete', 'database', 'orders', '--yes')).toEqual(output('^database orders is deleted\n$'));
    expect((await run('get', 'databases')).out).not.toContain('orders');
    expect((await run('get', 'volumes')).out).not.toContain('orders');
  });

  it('is used by the example of a manifest', async () => {
    const made = ['create', 'database', 'orders', '--project', 'shop', '--on', 'one', '--type', 'postgres'];
    expect((await run(...made)).code).toBe(0);
    const example = await readFile(new URL('../../manifests/examples/database.yaml', import.meta.url), 'utf8');
    const named = example.replace('project: demo', 'project: shop').replace('server: local', 'server: one');
    const apply = ['apply', '--file', '-', '--no-deploy'];
    expect(await town.cli.run(apply, named)).toEqual(output('^application shop created\n$'));
    expect((await town.cli.run(apply, named)).out).toBe('application shop unchanged\n');
    expect((await run('delete', 'database', 'orders', '--yes')).err).toContain('shop');
  });

  it('says how clients log in, and no other command shows its password', async () => {
    expect((await run('create', 'database', 'cache', '--project', 'shop', '--on', 'one', '--type', 'redis')).code).toBe(
      0,
    );
    expect((await run('db', 'start', 'cache')).code).toBe(0);
    const { out } = await run('db', 'credentials', 'cache');
    const password = /^password +(\S{32})$/m.exec(out)?.[1];
    expect(out).toMatch(
      new RegExp(
        `^user +default\npassword +${password}\ndatabase +0\ninside +redis://:${password}@cache-[0-9a-f]{6}:6379/0\n$`,
      ),
    );
    for (const words of [
      ['get', 'databases', '-o', 'json'],
      ['describe', 'database', 'cache'],
      ['events', 'database', 'cache'],
      ['logs', 'database', 'cache'],
    ]) {
      const shown = await run(...words);
      expect([words, shown.code, shown.out.includes(password ?? '')]).toEqual([words, 0, false]);
    }
  });

  it('gets another password, generated or given, and the command says who has the former one', async () => {
    const shown = async () => /^password +(\S+)$/m.exec((await run('db', 'credentials', 'cache')).out)?.[1];
    const before = await shown();
    await town.client.object('POST', '/api/v1/applications', {
      project_id: town.project.id,
      server_id: (await town.client.list('/api/v1/servers')).find(({ name }) => name === 'one')?.id,
      name: 'reader',
      source_type: 'image',
      image_url: 'example/web:1',
      env: { URL: '${databases.cache.url}' },
    });
    await town.client.object('POST', '/api/v1/functions', {
      project_id: town.project.id,
      server_id: (await town.client.list('/api/v1/servers')).find(({ name }) => name === 'one')?.id,
      name: 'counter',
      runtime: 'node20',
      code: 'export default () => new Response()',
      env: { URL: '${databases.cache.url}' },
    });
    expect(await run('db', 'rotate-password', 'cache')).toEqual(
      output(
        '^database cache has another password\nThese have the former one until they are deployed: reader, counter\n$',
      ),
    );
    const second = await shown();
    expect(second).toMatch(/^\S{32}$/);
    expect(second).not.toBe(before);
    const given = await town.cli.run(['db', 'rotate-password', 'cache', '--password'], 'open-sesame!\n');
    expect([given.code, given.out.includes('open-sesame!')]).toEqual([0, false]);
    expect(await shown()).toBe('open-sesame!');
    expect((await run('delete', 'application', 'reader', '--yes')).code).toBe(0);
    expect((await run('delete', 'function', 'counter', '--yes')).code).toBe(0);
  });

  it('gets other parameters, and has its own printed', async () => {
    expect(await run('db', 'parameters', 'cache', 'maxmemory=64m', 'timeout=60')).toEqual(
      output('^database cache has these parameters\n$'),
    );
    expect((await run('db', 'parameters', 'cache')).out).toBe('maxmemory=64m\ntimeout=60\n');
    expect((await run('db', 'parameters', 'cache', 'timeout=')).code).toBe(0);
    expect((await run('db', 'parameters', 'cache')).out).toBe('maxmemory=64m\n');
    expect(await run('db', 'parameters', 'cache', 'timeout')).toEqual(
      failed('Must be NAME=VALUE, or NAME= for its usual value: timeout'),
    );
    expect((await run('db', 'parameters', 'cache', 'appendonly=no')).err).toContain('Must be a parameter of Redis');
    expect(await run('db', 'restart', 'cache', 'now')).toEqual(failed('Cannot restart a database with now'));
  });

  it('imports nothing that its engine cannot read, nor a file beyond the folder of its server', async () => {
    const file = join(await mkdtemp(join(tmpdir(), 'setpoint-dump-')), 'dump.sql');
    await writeFile(file, `-- MySQL dump 10.13\n${'-- \n'.repeat(1_000_000)}`);
    const into = (...source: string[]) => run('db', 'import', 'cache', ...source, '--yes');
    expect(await into()).toEqual(failed('Say what is imported, by one of --file FILE, --url ADDRESS and --path PATH'));
    expect(await into('--file', file)).toEqual(
      failed('The dump cannot be imported: It is a dump of MySQL or MariaDB, and the database is of redis'),
    );
    expect((await into('--file', `${file}.none`)).err).toContain('ENOENT');
    expect((await into('--path', '../dump.rdb')).err).toContain('is not below it');
    expect((await into('--path', 'dump.rdb')).err).toContain('is not there');
    expect((await run('get', 'restores')).out).not.toContain('cache');
    await rm(dirname(file), { recursive: true });
  });

  it('has its output printed, and followed until that is interrupted', async () => {
    expect((await run('create', 'database', 'talk', '--project', 'shop', '--on', 'one', '--type', 'mysql')).code).toBe(
      0,
    );
    expect((await run('db', 'start', 'talk')).code).toBe(0);
    const printed = await run('logs', 'database', 'talk');
    expect(printed).toEqual(output('Z Listening\n'));
    expect(await run('db', 'logs', 'talk')).toEqual(printed);
    expect((await run('db', 'logs', 'talk', '--tail', '1')).out.split('\n')).toHaveLength(2);
    expect(await run('logs', 'database', 'talk', '--search', 'of nothing')).toEqual(output('^$'));
    const following = town.cli.start(['logs', 'database', 'talk', '--follow', '--search', 'Listening']);
    await following.prints(/Z Listening\n/);
    expect((await run('db', 'restart', 'talk')).code).toBe(0);
    await following.prints(/Listening\n[^]*Listening\n/);
    expect((await following.interrupt()).err).toBe('');
  });

  it('is not created or used without what it needs, and the command says what that is', async () => {
    const create = (...more: string[]) => run('create', 'database', 'none', ...more);
    expect(await create('--type', 'redis')).toEqual(failed('A database is created in a project: name it by --project'));
    expect(await create('--project', 'shop')).toEqual(
      failed('Say which database it is: --type postgres, mysql, mariadb, redis or mongodb'),
    );
    expect(await create('--project', 'shop', '--type', 'redis')).toEqual(
      failed('A database is on a server, and the project has no default one: name a server by --on'),
    );
    expect((await create('--project', 'shop', '--type', 'oracle')).err).toContain('oracle');
    const wrong = await create('--project', 'shop', '--on', 'one', '--type', 'redis', '--engine-version', '1');
    expect(wrong.err).toContain('Must be a version of Redis: 8, 7');
    expect((await run('db', 'start', 'nowhere')).err).toMatch(/^No database is called nowhere/);
    expect((await run('logs', 'volume', 'none')).err).toContain('Only an application, a database or a server has logs');
  });

  it('takes no verb that there is not', async () => {
    expect((await run('create', 'database', 'idle', '--project', 'shop', '--on', 'one', '--type', 'redis')).code).toBe(
      0,
    );
    expect(await run('db', 'backup', 'idle')).toEqual(
      failed(
        'Cannot backup a database: start, stop, restart, credentials, connect, rotate-password, parameters, import, archive, unarchive, window, logs or shell',
      ),
    );
  });
});
