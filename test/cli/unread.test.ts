import { expect, it } from 'vitest';
import { Answering } from '../harness/answering.ts';
import { CommandLine } from '../harness/command-line.ts';

const setpoint = new URL('../../cli/setpoint', import.meta.url).pathname;

/** Runs the command in a pipe whose reader leaves after one line; with the exit code of the command. */
async function unread(plane: Answering, verb: string, ...argv: string[]) {
  await using cli = await CommandLine.open();
  const words = [setpoint, verb, '--server', plane.url, '--token', 'sp_key', ...argv]
    .map((word) => `'${word}'`)
    .join(' ');
  const manifest = ['one', 'two'].map((name) => ({
    apiVersion: 'setpoint/v1',
    kind: 'Application',
    metadata: { name },
    spec: { project: 'shop', server: 'one', source_type: 'image', image_url: 'web:1' },
  }));
  await cli.file('all.yaml', manifest.map((one) => JSON.stringify(one)).join('\n---\n'));
  return await cli.runProgram('bash', ['-c', `cd "$HOME"; ${words} | head -1; exit \${PIPESTATUS[0]}`]);
}

it('what changes something is done although nothing reads its output any more', async () => {
  let made = 0;
  await using plane = await Answering.start({
    'GET /api/v1/projects': () => [{ id: 'p', name: 'shop' }],
    'GET /api/v1/projects/p/environments': () => [{ id: 'e', name: 'production' }],
    'GET /api/v1/servers': () => [{ id: 's', name: 'one' }],
    'GET /api/v1/applications': () => [],
    'POST /api/v1/applications': () => {
      made += 1;
      return { id: `a${made}`, name: 'web', status: 'stopped', current_deployment_id: null };
    },
    'POST /api/v1/applications/a1/deploy': () => ({ id: 'd1', number: 1, status: 'queued' }),
    'POST /api/v1/applications/a2/deploy': () => ({ id: 'd2', number: 1, status: 'queued' }),
  });
  expect(await unread(plane, 'apply', '-f', 'all.yaml', '--no-wait')).toEqual({
    code: 0,
    out: 'application one created\n',
    err: '',
  });
  expect(plane.came().at(-1)).toBe('POST /api/v1/applications/a2/deploy');
});

it('a command whose output nothing reads any more is cancelled', async () => {
  await using plane = await Answering.start(
    {
      'GET /api/v1/applications': () => [{ id: 'a', name: 'web' }],
      'POST /api/v1/applications/a/run': () => ({ id: 'r' }),
      'POST /api/v1/runs/r/cancel': () => ({ id: 'r' }),
    },
    (socket) => {
      const line = JSON.stringify({ type: 'log', stream: 'stdout', message: 'a line' });
      const writing = setInterval(() => socket.send(line), 100);
      socket.on('close', () => clearInterval(writing));
    },
  );
  expect(await unread(plane, 'run', 'web', '--', 'job')).toEqual({
    code: 1,
    out: 'a line\n',
    err: 'The command is cancelled: its process is being ended\n',
  });
  expect(plane.came().at(-1)).toBe('POST /api/v1/runs/r/cancel');
});

it('a terminal whose output nothing reads any more is left, also that of a client of a database', async () => {
  await using plane = await Answering.start(
    {
      'GET /api/v1/databases': () => [{ id: 'd', name: 'cache' }],
      'POST /api/v1/databases/d/terminal': () => ({ sessionId: 't' }),
    },
    (socket) => {
      const output = Buffer.from('a line\n'.repeat(20_000));
      const writing = setInterval(() => socket.send(output), 20);
      socket.on('close', () => clearInterval(writing));
    },
  );
  expect(await unread(plane, 'db', 'shell', 'cache')).toMatchObject({ code: 1, out: 'a line\n' });
}, 15_000);
