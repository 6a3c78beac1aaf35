import { randomBytes, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { endOrphans } from '../../../agent/machine/orphans.ts';
import { serverShells } from '../../../agent/machine/server-shells.ts';
import type { ExecProcess } from '../../../agent/runtime/exec.ts';
import { pino } from 'pino';
import { standsStill, until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

/** Shells of this machine, as children of this process: the units of systemd are in a test of their own. */
const owner = `/test/${randomUUID()}`;
const shells = serverShells({ owner, clock: systemClock, log: pino({ level: 'silent' }) });
const size = { cols: 91, rows: 31 };
const opened: AbortController[] = [];

afterEach(async () => {
  for (const stop of opened.splice(0)) stop.abort(new Error('enough'));
  await until('nothing is left', async () => (await processesWith(owner)).length === 0, { timeoutMs: 20_000 });
});

async function open(shell = '/bin/bash') {
  const stop = new AbortController();
  opened.push(stop);
  const process = await shells.open({ shell, size }, stop.signal);
  return { ...process, stop, type: (text: string) => process.input.write(Buffer.from(text)) };
}

function reading({ output }: Pick<ExecProcess, 'output'>) {
  const chunks: Buffer[] = [];
  const end = (async () => {
    for await (const chunk of output) chunks.push(Buffer.from(chunk));
  })();
  end.catch(() => undefined);
  const text = (): string => Buffer.concat(chunks).toString();
  return {
    end,
    text,
    bytes: () => Buffer.concat(chunks),
    shows: (what: string | RegExp) =>
      until(
        `it shows ${String(what)}`,
        async () => (typeof what === 'string' ? text().includes(what) : what.test(text())),
        { timeoutMs: 10_000, explain: async () => text() },
      ),
  };
}

/** Ids of processes that have the text in their environment or on their command line. */
async function processesWith(mark: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && name !== String(process.pid));
  const read = (id: string, name: string) => readFile(`/proc/${id}/${name}`, 'utf8').catch(() => '');
  const texts = await Promise.all(
    ids.map(async (id) => [id, (await read(id, 'environ')) + (await read(id, 'cmdline'))] as const),
  );
  return texts.filter(([, text]) => text.includes(mark)).map(([id]) => id);
}

describe('a shell of the server', () => {
  test('is a login shell on a terminal of its own that has its size from the first prompt', async () => {
    const shell = await open();
    const read = reading(shell);
    await shell.type('shopt -q login_shell && echo "is $(stty size) $(tty) $(ps -o tty= $$)"; stty -a; exit 3\n');
    await read.end;
    expect(read.text()).toMatch(/is 31 91 \/dev\/(pts\/\d+) \1/);
    expect(read.text()).toMatch(/ iutf8/);
    expect(read.text()).toMatch(/[^-]echo /);
    expect(await shell.exited).toBe(3);
  });

  test('is that of its user where none is named, in the home of the user', async () => {
    const stop = new AbortController();
    opened.push(stop);
    const shell = await shells.open({ size }, stop.signal);
    const read = reading(shell);
    await shell.input.write(Buffer.from('echo "at $PWD of $USER: $SHELL $HOME $TERM."; exit\n'));
    await read.end;
    expect(read.text()).toMatch(/at (\/\S*) of \S+: \/\S+ \1 xterm-256color\./);
  });

  test('gets a new size, and tells the program in the foreground', async () => {
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type(`sh -c 'trap "stty size" WINCH; echo rea""dy; while :; do sleep 0.05; done'\n`);
    await read.shows('ready');
    await shell.resize({ cols: 133, rows: 44 });
    await read.shows('44 133');
  });

  test('is interrupted by Ctrl-C and ended by the end of its input', async () => {
    const shell = await open('/bin/sh');
    const read = reading(shell);
    // by then it is in the foreground: before, the signal would be the shell's, which goes on waiting
    await shell.type(`sh -c 'echo u""p; exec sleep 1000'\n`);
    await read.shows('up\r\n');
    await shell.type('\u0003');
    await read.shows('^C');
    await shell.type('echo ba""ck; cat\n');
    await read.shows('back\r\n');
    await shell.type('a line\n');
    await read.shows('a line\r\na line');
    shell.input.end(); // ends cat
    await shell.type('echo ca""t is over\n');
    await read.shows('cat is over\r\n');
    shell.input.end();
    await read.end;
    expect(await shell.exited).toBe(0);
  });

  test('passes any bytes unchanged, more in each direction than the kernel holds', async () => {
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type('stty raw -echo; echo u""p; exec cat\n');
    await read.shows('up\n');
    const before = read.bytes().length;
    const data = randomBytes(2_000_000);
    for (let at = 0; at < data.length; at += 70_001) await shell.input.write(data.subarray(at, at + 70_001));
    await until('all came back', async () => read.bytes().length >= before + data.length);
    expect(read.bytes().subarray(before).equals(data)).toBe(true);
  });

  test('waits while its output is not read, with little memory, and then everything comes', async () => {
    const shell = await open('/bin/sh');
    const output = shell.output[Symbol.asyncIterator]();
    const most = 20_000_000;
    await shell.type(`stty -echo; echo u""p; head -c ${most} /dev/zero | tr '\\0' x; exit 7\n`);
    let text = '';
    while (!text.includes('up\r\n')) text += Buffer.from((await output.next()).value ?? []).toString();
    let written = text.length - text.indexOf('up\r\n') - 4;
    const before = process.memoryUsage().arrayBuffers;
    const writer = await until('it writes', async () => (await childrenOf('tr'))[0]);
    const position = async () => Number(/wchar: (\d+)/.exec(await readFile(`/proc/${writer}/io`, 'utf8'))?.[1]);
    expect(await standsStill('its writer', position)).toBeLessThan(1_000_000);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4_000_000);
    for (let next = await output.next(); next.done !== true; next = await output.next()) written += next.value.length;
    expect(written).toBeGreaterThanOrEqual(most);
    expect(written).toBeLessThan(most + 200);
    expect(await shell.exited).toBe(7);
  });

  test('takes no more input than its program reads', async () => {
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type('stty raw -echo; echo u""p; sleep 1000\n');
    await read.shows('up\n');
    let taken = 0;
    const writing = (async () => {
      for (; taken < 20_000_000; taken += 50_000) await shell.input.write(Buffer.alloc(50_000));
    })();
    await standsStill('what it takes', async () => taken);
    expect(taken).toBeLessThan(1_000_000);
    shell.stop.abort(new Error('enough'));
    await writing; // input for a terminal that is closed is dropped
    expect(taken).toBe(20_000_000);
  });

  test.each([
    ['its programs in the background', `sh -c ': MARK; echo u""p; sleep 1000' & sleep 1000`],
    ['what ignores the hang-up', `sh -c ': MARK; trap "" HUP TERM; echo u""p; while :; do sleep 1; done'`],
    ['a shell that ignores it', `trap "" HUP TERM; sh -c ': MARK; echo u""p; sleep 1000'`],
    ['what is stopped', `sh -c ': MARK; echo u""p; kill -STOP $$' & wait`],
    ['what left the session', `setsid sh -c ': MARK; echo u""p; sleep 1000' & sleep 1000`],
    ['what cleared its environment', `env -i sh -c ': MARK; trap "" HUP; echo u""p; sleep 1000'`],
  ])('ends %s when its user leaves', async (_, script) => {
    const mark = `mark-${randomUUID()}`;
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type(`${script.replace('MARK', mark)}\n`);
    await read.shows('up\r\n');
    // One, or two for as long as its fork has not become the next program.
    expect(await processesWith(mark)).not.toEqual([]);
    shell.stop.abort(new Error('enough'));
    await expect(read.end).rejects.toThrow('enough');
    expect(await shell.exited).toBeDefined();
    expect(await processesWith(mark)).toEqual([]);
    expect(await processesWith(owner)).toEqual([]);
  });

  test('ends what it left running when it exits, and then brings its code', async () => {
    const mark = `mark-${randomUUID()}`;
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type(`nohup sh -c ': ${mark}; sleep 1000' & sleep 0.2; exit 4\n`);
    await read.end;
    expect(await shell.exited).toBe(4);
    expect(await processesWith(mark)).toEqual([]);
  });

  test('ends although a program that cannot be found keeps the terminal open', { tags: [longTag] }, async () => {
    const mark = `mark-${randomUUID()}`;
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type(`env -i setsid sh -c ': ${mark}; sleep 1000' & sleep 0.2; echo la""st; exit 5\n`);
    await read.end;
    expect(read.text()).toContain('last\r\n');
    expect(await shell.exited).toBe(5);
    for (const pid of await processesWith(mark)) process.kill(Number(pid), 'SIGKILL');
  });

  test('that an agent left is ended by the next one', async () => {
    const shell = await open('/bin/sh');
    const read = reading(shell);
    await shell.type('trap \'\' HUP; echo u""p; setsid sleep 1000 & sleep 1000\n');
    await read.shows('up\r\n');
    await until('both programs run', async () => (await processesWith(owner)).length > 2);
    await endOrphans(owner, AbortSignal.timeout(10_000));
    expect(await processesWith(owner)).toEqual([]);
    await read.end;
    expect(await shell.exited).toBe(137);
  });

  test('that is not there is refused', async () => {
    for (const shell of ['/bin/missing', 'missing', '/etc', '/etc/passwd'])
      await expect(open(shell)).rejects.toMatchObject({
        name: 'CallError',
        code: 'no_program',
        message: `The server has no program ${shell}`,
      });
  });
});

async function childrenOf(name: string): Promise<string[]> {
  const ids = await processesWith(owner);
  const names = await Promise.all(ids.map((id) => readFile(`/proc/${id}/comm`, 'utf8').catch(() => '')));
  return ids.filter((_, n) => names[n]?.trim() === name);
}
