import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { account, CommandLine } from '../harness/command-line.ts';
import { freePort, Program } from '../harness/program.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

it('an operator copies the store beside its server, and puts it back while that is stopped', async () => {
  await using running = new AsyncDisposableStack();
  const cli = running.use(await CommandLine.open());
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const [data, elsewhere] = [join(cli.home, 'server'), join(cli.home, 'elsewhere.db')];
  const flags = ['--listen', `127.0.0.1:${port}`, '--data', data, '--store', `sqlite:${elsewhere}`];
  const server = new Program(['server', ...flags], join(cli.home, 'server.log'));
  running.defer(() => server.kill());
  const post = async (path: string, body: object): Promise<number> => {
    const headers = { 'content-type': 'application/json' };
    const options = { method: 'POST', headers, body: JSON.stringify(body) };
    return (await fetch(`${url}/default/api/v1/auth/${path}`, options)).status;
  };
  const copy = join(cli.home, 'copy.db');
  const onServer = (...argv: string[]) => cli.run(['store', ...argv, '--data', data]);

  server.start();
  await server.ready(url);
  const made = await onServer('backup', copy);
  expect([made.code, made.err]).toEqual([0, '']);
  expect(made.out).toContain(join(data, 'keys.json'));
  expect((await stat(copy)).mode & 0o777).toBe(0o600);
  expect((await onServer('backup', copy)).err).toContain('there is such a file');

  expect(await post('register', { ...account, first_name: 'Olive', last_name: 'Owner' })).toBe(201);
  const restore = () => onServer('restore', copy, '--store', `sqlite:${elsewhere}`);
  expect((await restore()).err).toContain(`held by process ${server.pid}`);
  await server.kill();
  const restored = await restore();
  expect([restored.code, restored.err]).toEqual([0, '']);
  expect(restored.out).toContain(`${elsewhere}.before-`);
  server.start();
  await server.ready(url);
  expect(await post('login', account)).toBe(401);
});
