import { randomBytes, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExecOptions, ExecProcess } from '../../agent/runtime/exec.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';
import { dockerRig, mockRig, type RuntimeRig } from './runtime-rigs.ts';

const tty = { cols: 80, rows: 24 };

describe.each([
  ['the mock engine', mockRig],
  ['Docker', dockerRig],
])('a process in a container of %s', (_name, makeRig) => {
  let rig: RuntimeRig;
  let container: string;
  const signal = (): AbortSignal => AbortSignal.timeout(60_000);

  beforeAll(async () => {
    rig = await makeRig();
    container = await rig.runtime.create(rig.spec({}), signal());
    await rig.runtime.start(container, signal());
  });
  afterAll(() => rig[Symbol.asyncDispose]());

  const exec = (options: ExecOptions, stop = signal()): Promise<ExecProcess> =>
    rig.runtime.exec(container, options, stop);

  /** Reads all output in the background. */
  function reading(process: ExecProcess): { text: () => string; bytes: () => Buffer; end: Promise<void> } {
    const chunks: Uint8Array[] = [];
    const end = (async () => {
      for await (const chunk of process.output) chunks.push(Uint8Array.from(chunk));
    })();
    end.catch(() => undefined);
    const bytes = (): Buffer => Buffer.concat(chunks);
    return { text: () => bytes().toString(), bytes, end };
  }

  test('without a terminal gets its input as it is to the end, and answers with its code', async () => {
    const process = await exec({ command: ['cat'] });
    const read = reading(process);
    const data = randomBytes(1_000_000);
    for (let at = 0; at < data.length; at += 70_001) await process.input.write(data.subarray(at, at + 70_001));
    process.input.end();
    await read.end;
    expect(read.bytes().equals(data)).toBe(true);
    expect(await process.exited).toBe(0);
  });

  test('waits while its output is not read, and so does its writer', async () => {
    const process = await exec({ command: ['cat'] });
    const block = new Uint8Array(64 * 1024);
    let written = 0;
    const most = 64 * 1024 * 1024;
    const writing = (async () => {
      for (; written < most; written += block.length) await process.input.write(block);
      process.input.end();
    })();
    let before = -1;
    await until('it stands still', async () => before === (before = written), { everyMs: 200 });
    expect(written).toBeLessThan(most / 4);
    let read = 0;
    for await (const chunk of process.output) read += chunk.length;
    await writing;
    expect(read).toBe(most);
  });

  test('with a terminal shows what is typed, knows its size, and leaves with the code of its shell', async () => {
    const process = await exec({ command: ['/bin/sh'], tty });
    const read = reading(process);
    await process.input.write(Buffer.from('stty size\n'));
    await until('the size', async () => read.text().includes('24 80'));
    await process.resize({ cols: 132, rows: 43 });
    await process.input.write(Buffer.from('stty size\n'));
    await until('the new size', async () => read.text().includes('43 132'));
    expect(read.text()).toContain('stty size');
    await process.input.write(Buffer.from('exit 3\n'));
    await read.end;
    expect(await process.exited).toBe(3);
    await process.resize({ cols: 80, rows: 24 });
    await process.input.write(Buffer.from('dropped\n'));
  });

  test('is interrupted by Ctrl-C', async () => {
    const process = await exec({ command: ['/bin/sh'], tty });
    const read = reading(process);
    await process.input.write(Buffer.from('sleep 1000\n'));
    await until('it sleeps', async () => read.text().includes('sleep 1000'));
    // Before its program is in the foreground the shell takes the signal, and goes on waiting: a user presses again.
    const isInterrupted = (): boolean => /\^C[^]*[#$] $/.test(read.text());
    const press = async (): Promise<boolean> => {
      if (isInterrupted()) return true;
      await process.input.write(Uint8Array.of(3));
      return false;
    };
    await until('it is interrupted', press, { everyMs: 200 });
    await process.input.write(Buffer.from('echo back\n'));
    await until('the shell', async () => read.text().includes('\nback'));
    await process.input.write(Buffer.from('exit 0\n'));
    expect(await process.exited).toBe(0);
  });

  test('that runs shortly has its output and its code', async () => {
    const process = await exec({ command: ['/bin/sh', '-c', 'echo done;exit 5'] });
    const read = reading(process);
    await read.end;
    expect(read.text()).toBe('done\n');
    expect(await process.exited).toBe(5);
  });

  test.each([
    ['with a terminal', { tty }],
    ['without a terminal', {}],
  ])('whose program is not there %s is refused', async (_, options) => {
    await expect(exec({ command: ['/bin/missing'], ...options })).rejects.toMatchObject({
      name: 'ExecFailure',
      code: 'no_program',
      message: 'The container cannot run /bin/missing',
    });
  });

  test('is refused in a container that does not run, or is not there', async () => {
    const made = await rig.runtime.create(rig.spec({}), signal());
    for (const id of [made, 'f'.repeat(64)])
      await expect(rig.runtime.exec(id, { command: ['/bin/sh'] }, signal())).rejects.toMatchObject({
        name: 'ExecFailure',
        code: 'not_running',
      });
  });

  test.each([
    ['with a terminal', { command: ['/bin/sh'], tty } as const],
    ['without a terminal', { command: ['cat'] } as const],
  ])('%s ends when the signal aborts', async (_, options) => {
    const stop = new AbortController();
    const process = await exec(options, stop.signal);
    const read = reading(process);
    stop.abort(new Error('enough'));
    await expect(read.end).rejects.toThrow('enough');
    expect(await process.exited).not.toBe(undefined);
  });

  test('ends with its container', async () => {
    const other = await rig.runtime.create(rig.spec({}), signal());
    await rig.runtime.start(other, signal());
    const process = await rig.runtime.exec(other, { command: ['/bin/sh'], tty }, signal());
    const read = reading(process);
    await rig.runtime.remove(other, signal());
    await read.end;
    await process.exited;
  });
});

describe('a process in a container of Docker that stays when its terminal is closed', () => {
  /** Ids of processes on this machine whose command line has the mark. */
  async function processesWith(mark: string): Promise<string[]> {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const lines = await Promise.all(
      pids.map(async (pid) => [pid, await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')] as const),
    );
    return lines.filter(([, line]) => line.includes(mark)).map(([pid]) => pid);
  }

  test.each([
    ['is hung up, and so is what it started', "/bin/sh -c ': MARK; sleep 1003' & sleep 1003"],
    ['is killed if it ignores that', "trap '' HUP TERM; while :; do sleep 1; done"],
  ])('%s', async (_, script) => {
    await using rig = await dockerRig();
    const signal = AbortSignal.timeout(60_000);
    const container = await rig.runtime.create(rig.spec({}), signal);
    await rig.runtime.start(container, signal);
    const mark = `mark-${randomUUID()}`;
    const stop = new AbortController();
    const command = ['/bin/sh', '-c', `: ${mark}; echo up; ${script.replace('MARK', mark)}`] as const;
    const process = await rig.runtime.exec(container, { command, tty }, stop.signal);
    const output = process.output[Symbol.asyncIterator]();
    await output.next();
    expect(await processesWith(mark)).not.toEqual([]);
    stop.abort(new Error('enough'));
    expect(await process.exited).toBeDefined();
    expect(await processesWith(mark)).toEqual([]);
    expect((await rig.runtime.inspect(container, signal))?.state).toBe('running');
  });

  test.each([
    ['ends by itself', 'exit 3', 3],
    ['is closed', 'sleep 1004', 129],
  ])('leaves nothing of what it started where it %s', async (how, last, code) => {
    await using rig = await dockerRig();
    const signal = AbortSignal.timeout(60_000);
    const { http: image } = await ensureTestImages();
    const container = await rig.runtime.create(rig.spec({}, { image }), signal);
    await rig.runtime.start(container, signal);
    const mark = `mark-${randomUUID()}`;
    const words = `: ${mark}; sleep 1004; :`;
    const script = [
      `/bin/sh -c '${words}' &`,
      // leaves the session
      `/bin/node -e "require('child_process').spawn('/bin/sh', ['-c', '${words}'], { detached: true, stdio: 'ignore' }).unref()"`,
      // takes the whole grace
      ...(how === 'is closed' ? [`(trap '' HUP; exec /bin/sh -c '${words}') &`] : []),
      `echo up; ${last}`,
    ].join('\n');
    const stop = new AbortController();
    const process = await rig.runtime.exec(container, { command: ['/bin/sh', '-c', script], tty }, stop.signal);
    const output = process.output[Symbol.asyncIterator]();
    await output.next();
    if (how === 'is closed') {
      await until('all of it runs', async () => (await processesWith(mark)).length >= 4, { timeoutMs: 15_000 });
      stop.abort(new Error('enough'));
    }
    expect(await process.exited).toBe(code);
    await until('nothing is left', async () => (await processesWith(mark)).length === 0, { timeoutMs: 15_000 });
    expect((await rig.runtime.inspect(container, signal))?.state).toBe('running');
  });
});
