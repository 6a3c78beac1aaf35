import { createServer } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { CommandLine } from '../harness/command-line.ts';
import { freePort } from '../harness/program.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let cli: CommandLine;

beforeAll(async () => {
  cli = await CommandLine.open();
});
afterAll(() => cli[Symbol.asyncDispose]());

const programs = [
  ['server', '--listen', '127.0.0.1:0'],
  ['agent', '--server', 'http://127.0.0.1:1/default'],
  ['dev', '--listen', '127.0.0.1:0'],
];

it.each(programs)('%s says which data directory does not serve, and why', { tags: [longTag] }, async (...program) => {
  const file = await cli.file(`file-${program[0]}`, '');
  const failureOf = async (data: string) => {
    const { code, out, err } = await cli.run([...program, '--data', data]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    return err;
  };
  expect(await failureOf('/proc/nope')).toBe(
    'Cannot use /proc/nope as the data directory: its file system makes no directory there. Choose another with --data\n',
  );
  expect(await failureOf(file)).toBe(
    `Cannot use ${file} as the data directory: ${file} is a file. Choose another with --data\n`,
  );
  expect(await failureOf(join(file, 'below'))).toContain('a part of its path is a file');
});

it('a server says that its port is taken, and that its data directory is held', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const data = join(cli.home, 'held');
  const busy = await cli.run(['server', '--listen', `127.0.0.1:${port}`, '--data', data]);
  taken.close();
  expect(busy).toEqual({
    code: 1,
    out: expect.any(String),
    err: `Cannot listen on 127.0.0.1:${port}: another program does. Choose another with --listen\n`,
  });

  const free = await freePort();
  const first = cli.start(['server', '--listen', `127.0.0.1:${free}`, '--data', data]);
  await until('it is ready', async () => (await fetch(`http://127.0.0.1:${free}/readyz`)).ok, {
    timeoutMs: 60_000,
    explain: async () => first.out(),
  });
  const second = await cli.run(['server', '--listen', `127.0.0.1:${await freePort()}`, '--data', data]);
  expect(second.code).toBe(1);
  expect(second.err).toMatch(/^Cannot open \S+store\.db as it is held by process \d+ on /);
  expect((await first.interrupt()).code).toBe(0);
});

it.each([
  [['get'], "error: missing required argument 'kind'", 'setpoint get [options] <kind> [name]'],
  [['keys', 'rotate', '--nothing'], "error: unknown option '--nothing'", 'setpoint keys rotate [options]'],
  [
    ['scale', 'web', '1', '2'],
    "error: too many arguments for 'scale'. Expected 2 arguments but got 3: web, 1, 2.",
    'setpoint scale',
  ],
])('a wrong use of %j is followed by one line of usage', async (argv, error, usage) => {
  const { code, out, err } = await cli.run(argv);
  expect({ code, out }).toEqual({ code: 1, out: '' });
  const [first, second, ...rest] = err.split('\n');
  expect([first, second, rest]).toEqual([error, expect.stringMatching(/^Usage: .*; --help shows more$/), ['']]);
  expect(second).toContain(usage);
});

it('an agent without an identity says that it needs a join token', async () => {
  const data = join(cli.home, 'agent');
  const { code, err } = await cli.run(['agent', '--server', 'http://127.0.0.1:1/default', '--data', data]);
  expect(code).toBe(1);
  expect(err).toMatch(/^The agent has no identity yet \(.*\): make a join token by `setpoint join SERVER`/m);
});
