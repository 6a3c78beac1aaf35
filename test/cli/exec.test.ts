import { userInfo } from 'node:os';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { Town } from '../harness/command-line.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let town: Town;

beforeAll(async () => {
  town = await Town.start();
  await town.login();
  const spec = {
    project: 'shop',
    server: 'one',
    source_type: 'image',
    image_url: 'ghcr.io/web:1',
    min_healthy_seconds: 1,
  };
  const web = { apiVersion: 'setpoint/v1', kind: 'Application', metadata: { name: 'web' }, spec };
  const made = await town.cli.run(['apply', '-f', '-'], JSON.stringify(web));
  expect(made).toMatchObject({ code: 0 });
});
afterAll(() => town[Symbol.asyncDispose]());

it('a shell reads standard input, and the command exits with its code', async () => {
  const { code, out, err } = await town.cli.run(['exec', 'web'], 'echo hello\nstty size\nexit 3\n');
  expect(out).toContain('\r\nhello\r\n');
  expect(out).toContain('\r\n24 80\r\n');
  expect({ code, err }).toEqual({ code: 3, err: '' });
});

it('a shell ends with standard input', async () => {
  expect(await town.cli.run(['exec', 'web', '--shell', '/bin/sh'], 'echo hello\n')).toMatchObject({ code: 0, err: '' });
});

it('a command has its arguments as they are, and they are no options of this one', async () => {
  const { code, out } = await town.cli.run(['exec', 'web', '--', '/bin/sh', '-c', 'echo --project  "x"']);
  expect({ code, out }).toEqual({ code: 0, out: '--project  "x"\r\n' });
});

it('at a terminal, Ctrl-C goes to the program there', async () => {
  const running = town.cli.atTerminal(['exec', 'web']);
  await running.prints('$ ');
  running.type('sleep 1000\r');
  await running.prints('sleep 1000');
  running.type('\u0003');
  await running.prints('^C');
  running.type('echo back\r');
  await running.prints('\nback');
  running.type('exit 4\r');
  expect(await running.ended()).toMatchObject({ code: 4 });
});

it('at a terminal, output arrives as it was written, and the terminal is as before once it has ended', async () => {
  const running = town.cli.atTerminal(['shell', 'one', '--shell', '/bin/sh']);
  await running.prints(/[#$] /);
  running.type("stty -onlcr; printf 'a%s\\nc%s\\n' b d; stty onlcr; echo in'side'; exit 5\r");
  expect(await running.ended()).toMatchObject({ code: 5 });
  expect(running.out()).toContain('ab\ncd\n');
  expect(running.out()).toContain('inside\r\n');
  expect(running.out()).not.toContain('\r\r\n');
  const after = town.cli.atTerminal(['shell', 'one', '--shell', '/bin/sh'], {}, 'stty -a');
  await after.prints(/[#$] /);
  after.type('exit 0\r');
  const { out } = await after.ended();
  expect(out).toMatch(/[^-]opost[^]*[^-]onlcr/);
  expect(out).toMatch(/[^-]icanon/);
});

it('at a terminal, a new size of the window is the size of the terminal there', async () => {
  const running = town.cli.atTerminal(['exec', 'web']);
  await running.prints('$ ');
  running.type('stty size\r');
  await running.prints('\n24 80\r');
  await running.resize(133, 44);
  await until('the terminal there has the new size', async () => {
    running.type('stty size\r');
    return running.out().includes('\n44 133\r');
  });
  running.type('exit 0\r');
  expect(await running.ended()).toMatchObject({ code: 0 });
});

it('what cannot be run is an error that says what to do', { tags: [longTag] }, async () => {
  expect(await town.cli.run(['exec', 'web', '--', '/bin/nothing'])).toMatchObject({
    code: 1,
    err: 'The container has no program /bin/nothing\n',
  });
  expect(await town.cli.run(['exec', 'web', '--instance', crypto.randomUUID()])).toMatchObject({
    code: 1,
    err: expect.stringContaining('Instance'),
  });
  expect(await town.cli.run(['stop', 'web'])).toMatchObject({ code: 0 });
  expect(await town.cli.run(['exec', 'web'])).toMatchObject({
    code: 1,
    err: 'Cannot open a terminal as the application is stopped: start it first\n',
  });
});

it('a shell of a server is one of its machine, with the window that is here', async () => {
  const running = town.cli.atTerminal(['shell', 'one', '--shell', '/bin/sh']);
  await running.prints(/[#$] /);
  running.type('stty size\r');
  await running.prints('24 80\r');
  await running.resize(133, 44);
  await until('the terminal there has the new size', async () => {
    running.type('stty size\r');
    return running.out().includes('44 133\r');
  });
  running.type('exit 6\r');
  expect(await running.ended()).toMatchObject({ code: 6 });
  const piped = await town.cli.run(['shell', 'one'], 'echo "of $USER"; exit 3\n');
  expect(piped).toMatchObject({ code: 3, err: '', out: expect.stringContaining(`of ${userInfo().username}\r\n`) });
});

it.each([
  ['nothing', '', /./],
  ['a command', "echo of'line'\n", /ofline\r\n/],
  ['a line that does not end', "echo of'line'", /ofline\r\n/],
  ['a program that takes its time, and one that reads', "sleep 2; cat; echo of'line'\n", /ofline\r\n/],
])('a shell of a server that edits its lines ends with its input: %s', { tags: [longTag] }, async (_, input, shown) => {
  const ended = await town.cli.run(['shell', 'one', '--shell', '/bin/bash'], input);
  expect(ended).toMatchObject({ code: 0, err: '', out: expect.stringMatching(shown) });
});

it('a server whose agent was started without has no shell, and says why', { tags: [longTag] }, async () => {
  await town.agent.kill();
  town.agent.start({ SETPOINT_NO_SERVER_TERMINALS: 'true' });
  await until('its agent is back', async () => (await town.cli.run(['shell', 'one'])).err.startsWith('The operator'), {
    explain: () => town.agent.lastOutput(),
  });
  expect(await town.cli.run(['shell', 'one'])).toMatchObject({
    code: 1,
    err: 'The operator of the machine allows no terminals of the server: start its agent without --no-server-terminals, or log in otherwise\n',
  });
});

it('a command that has to be sent again goes on until it is answered', { tags: [longTag] }, async () => {
  await town.agent.kill();
  await until('the control plane knows', async () => {
    const { out } = await town.cli.run(['get', 'servers']);
    return out.includes('disconnected');
  });
  expect(await town.cli.run(['shell', 'one'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('The agent of the server is not connected'),
  });
});
