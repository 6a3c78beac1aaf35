import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Running } from '../harness/command-line.ts';
import { instancesOf, removeEverythingOf } from '../harness/engine.ts';
import { freePort } from '../harness/program.ts';
import { ensureCaddyImage } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';

interface Listed {
  id: string;
  name?: string;
  number?: number;
}

describe('setpoint dev', () => {
  let cli: CommandLine;
  let argv: string[];
  let url: string;
  let example: string;
  const servers: string[] = [];
  let running: Running | undefined;

  const list = async (kind: string): Promise<Listed[]> => JSON.parse((await cli.run(['get', kind, '-o', 'json'])).out);
  const answer = async () => (await fetch(example)).json();

  /** The server gets a proxy from an image of this machine; it answers with no application for that host. */
  async function expectProxy(account: string): Promise<void> {
    const tenant = { server: url, tenant: 'default' };
    const credentials: unknown = JSON.parse(await readFile(account, 'utf8'));
    const login = await createClient(tenant).request('POST', '/api/v1/auth/login', credentials);
    const client = createClient({ ...tenant, ...z.object({ token: z.string() }).parse(login) });
    const [http, https] = [await freePort(), await freePort()];
    const ingress = { http_port: http, https_port: https };
    await client.object('PUT', `/api/v1/servers/${servers[0]}`, { ingress });
    await until('the proxy runs', async () => {
      const { conditions } = await client.object('GET', `/api/v1/servers/${servers[0]}`);
      return conditions?.some(({ type, status }) => type === 'IngressReady' && status === 'true') === true;
    });
    expect((await fetch(`http://127.0.0.1:${http}/`)).status).toBe(404);
  }

  beforeAll(async () => {
    cli = await CommandLine.open();
    const [port, examplePort] = [await freePort(), await freePort()];
    url = `http://127.0.0.1:${port}`;
    example = `http://127.0.0.1:${examplePort}/`;
    argv = [
      'dev',
      '--listen',
      `127.0.0.1:${port}`,
      '--data',
      join(cli.home, 'data'),
      '--example-port',
      `${examplePort}`,
    ];
  });
  afterAll(async () => {
    await running?.interrupt();
    for (const server of servers) await removeEverythingOf(server);
    await cli[Symbol.asyncDispose]();
  });

  it('makes a user, a server and an example that answers, and is found as it was left by a second run', async () => {
    running = cli.start(argv);
    await running.prints('Stop with Ctrl-C');
    servers.push(...(await list('servers')).map(({ id }) => id));
    const out = running.out();
    expect(out).toContain(`Control plane: ${url}/default`);
    expect(out).toMatch(/First user: admin@\S+, password \S+ {3}\(kept in \S+account\.json\)/);
    expect(out).toContain('application hello created\nDeployment 1 of hello: queued\n');
    expect(out).toContain('Application "hello" is running on server "local"');
    expect(out).toContain(`$ curl ${example}\n{"message":"Hello from Setpoint"`);
    expect(await answer()).toMatchObject({ message: 'Hello from Setpoint', revision: 1 });

    const second = await cli.run([
      'dev',
      '--listen',
      `127.0.0.1:${await freePort()}`,
      '--data',
      join(cli.home, 'data'),
    ]);
    expect(second.code).toBe(1);
    expect(second.out).toBe('');
    expect(second.err).toMatch(/^Cannot open \S+ as it is held by process \d+ on /);
    const elsewhere = await cli.run([...argv.slice(0, 3), '--data', join(cli.home, 'other')]);
    expect(elsewhere.err).toContain('another program does. Choose another with --listen');
    expect(elsewhere.code).toBe(1);

    const before = await Promise.all(['projects', 'servers', 'applications', 'deployments'].map(list));
    expect(await running.interrupt()).toMatchObject({ code: 0, err: '' });
    const app = before[2]?.[0]?.id ?? '';
    const containers = await instancesOf(app);
    expect(containers).toHaveLength(1);
    expect(await answer()).toMatchObject({ revision: 1 });

    const account = join(cli.home, 'data', 'account.json');
    const kept = await readFile(account, 'utf8');
    await writeFile(account, JSON.stringify({ ...JSON.parse(kept), password: 'changed meanwhile' }));
    const lockedOut = await cli.run(argv);
    expect(lockedOut.code).toBe(1);
    expect(lockedOut.err).toBe(
      `Cannot log in as admin@localhost.localdomain: E-mail or password is wrong. If its password was changed, write ` +
        `the present one into ${account}, and start again\n`,
    );
    await writeFile(account, kept);

    const caddy = await ensureCaddyImage();
    running = cli.start([...argv, '--ingress-image', caddy, '--local-images', 'setpoint-test/*']);
    await running.prints('Stop with Ctrl-C');
    expect(running.out()).toContain('application hello unchanged\n');
    expect(running.out()).not.toContain('First user');
    const after = await Promise.all(['projects', 'servers', 'applications', 'deployments'].map(list));
    expect(after.map((all) => all.map(({ id }) => id))).toEqual(before.map((all) => all.map(({ id }) => id)));
    expect(await instancesOf(app)).toEqual(containers);
    expect(await answer()).toMatchObject({ revision: 1 });
    await expectProxy(account);
    expect(await running.interrupt()).toMatchObject({ code: 0, err: '' });
    running = undefined;
    const log = await readFile(join(cli.home, 'data', 'dev.log'), 'utf8');
    expect(log.split('\n').filter((line) => line.includes('"level":50'))).toEqual([]);
  });

  it(
    'comes up again after its server was deleted, and after the data of its agent was removed',
    { tags: 'long' },
    async () => {
      const serverHere = async () => (await list('servers')).map(({ id }) => id);
      running = cli.start(argv);
      await running.prints('Stop with Ctrl-C');
      const [first] = await serverHere();
      expect(await cli.run(['delete', 'server', 'local', '--force', '--yes'])).toMatchObject({ code: 0, err: '' });
      expect(await running.interrupt()).toMatchObject({ code: 0, err: '' });

      running = cli.start(argv);
      await running.prints('Stop with Ctrl-C');
      servers.push(...(await serverHere()));
      const kept = join(cli.home, 'data', `agent-of-${first}`);
      expect(running.out()).toContain(`Server ${first} is gone: the data of its agent is kept in ${kept}, and nothing`);
      expect(running.out()).toContain('The server of application "hello" was deleted: the application is made anew');
      expect(running.out()).toContain('Application "hello" is running on server "local"');
      const [second, ...others] = await serverHere();
      expect(others).toEqual([]);
      expect(second).not.toBe(first);
      expect(await answer()).toMatchObject({ message: 'Hello from Setpoint' });
      expect(await running.interrupt()).toMatchObject({ code: 0, err: '' });

      await rm(join(cli.home, 'data', 'agent'), { recursive: true });
      const everywhere = ['--listen', `0.0.0.0:${new URL(url).port}`];
      const forOthers = ['--public-url', 'http://192.0.2.1:7070', '--allow-plain-http'];
      running = cli.start([...argv, ...everywhere, ...forOthers]);
      await running.prints('Stop with Ctrl-C');
      expect(running.out()).toContain('Other machines are to reach it at http://192.0.2.1:7070\n');
      const other = await cli.run(['create', 'server', 'two']);
      expect(other.out).toMatch(/ --server http:\/\/192\.0\.2\.1:7070\/default --allow-plain-http\n$/);
      expect(other.err).toContain('this network has no other users');
      expect(await cli.run(['delete', 'server', 'two', '--yes'])).toMatchObject({ code: 0 });
      expect(running.out()).toContain('The agent has not joined as server "local" with this data directory: it joins');
      expect(running.out()).toContain('Application "hello" is running on server "local"');
      expect(await serverHere()).toEqual([second]);
      expect(await answer()).toMatchObject({ message: 'Hello from Setpoint' });
      expect(await running.interrupt()).toMatchObject({ code: 0, err: '' });
      running = undefined;
    },
  );
});
