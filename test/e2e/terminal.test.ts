import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureBareImage, ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';

/** A terminal from the socket of a user to a process in a container, over everything between. */
describe('a terminal', () => {
  let town: Installation;
  let app: string;

  beforeAll(async () => {
    const { http } = await ensureTestImages();
    town = await Installation.start({ store: 'sqlite' });
    const port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    app = await serving({ source_type: 'image', image_url: http, ...web });
  });
  afterAll(() => town[Symbol.asyncDispose]());

  async function serving(fields: Record<string, unknown>): Promise<string> {
    const { id } = await town.createApplication({ ...brief, ...fields });
    await town.deployment((await town.deploy(id)).id, 'succeeded');
    return id;
  }

  /** A user at a terminal. */
  async function open(application = app, body: object = {}) {
    const made = (await town.client.request('POST', `/api/v1/applications/${application}/terminal`, body)) as {
      sessionId: string;
    };
    const socket: WebSocket = await town.client.socket(`/ws/terminal/${made.sessionId}`, { output: 'binary' });
    const chunks: Buffer[] = [];
    const frames: Record<string, unknown>[] = [];
    socket.on('message', (data: Buffer, isBinary) =>
      isBinary ? chunks.push(data) : frames.push(JSON.parse(data.toString()) as Record<string, unknown>),
    );
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    socket.resume();
    const bytes = (): Buffer => Buffer.concat(chunks);
    return {
      socket,
      frames,
      closed,
      bytes,
      type: (text: string) => socket.send(JSON.stringify({ type: 'input', data: text })),
      resize: (cols: number, rows: number) => socket.send(JSON.stringify({ type: 'resize', cols, rows })),
      shows: (text: string) => until(`it shows ${text}`, async () => bytes().includes(text)),
    };
  }

  it('has its size and its new size, is interrupted by Ctrl-C, and brings the exit code back', async () => {
    const user = await open(app, { cols: 91, rows: 31 });
    user.type('stty size\n');
    await user.shows('31 91');
    user.resize(133, 44);
    user.type('stty size\n');
    await user.shows('44 133');
    // by then it is in the foreground, where the signal goes
    user.type(`sh -c 'echo u""p; exec sleep 1000'\n`);
    await user.shows('up\r\n');
    user.type('\u0003');
    await user.shows('^C');
    user.type('echo $((40 + 2))\n');
    await user.shows('42');
    user.type('exit 3\n');
    await user.closed;
    expect(user.frames.find(({ type }) => type === 'exit')).toEqual({ type: 'exit', code: 3 });
  });

  it('passes any bytes unchanged in both directions', async () => {
    const user = await open(app, { command: ['/bin/sh', '-c', 'stty raw -echo; echo up; exec cat'] });
    await user.shows('up\n');
    const data = randomBytes(2_000_000);
    for (let at = 0; at < data.length; at += 30_000) user.socket.send(data.subarray(at, at + 30_000));
    await until('all came back', async () => user.bytes().length >= data.length + 3);
    expect(user.bytes().subarray(3).equals(data)).toBe(true);
    user.socket.close();
  });

  it('ends what it ran when its user leaves', async () => {
    const mark = `sleep 10${Date.now() % 1_000_000}`;
    const user = await open(app, { command: ['/bin/sh', '-c', `echo up; ${mark}; echo down`] });
    await user.shows('up');
    const [container] = await instancesOf(app);
    const runs = async (): Promise<boolean> => (await docker('top', container!)).includes(mark);
    expect(await runs()).toBe(true);
    user.socket.terminate();
    await until('it is gone', async () => !(await runs()), { timeoutMs: 10_000 });
  });

  it('in an image without a shell says what to do', async () => {
    const bare = await serving({ source_type: 'image', image_url: await ensureBareImage() });
    const user = await open(bare);
    await user.closed;
    expect(user.frames.find(({ type }) => type === 'error')).toEqual({
      type: 'error',
      code: 'no_program',
      message:
        'The container has none of /bin/bash, /bin/ash, /bin/sh, /bin/busybox, /busybox/sh, as images without a system do: name a program that it has, or ' +
        'add a shell to the image',
    });
  });
});
