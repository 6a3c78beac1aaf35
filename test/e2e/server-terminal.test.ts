import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Installation } from '../harness/installation.ts';
import type { InstallationOptions } from '../harness/installation.ts';
import { memoryOf, processesWith, writtenBy } from '../harness/processes.ts';
import { openTerminal } from '../harness/server-terminal.ts';
import { standsStill, until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const escape = '\u001b';

/** A terminal of a server, from the socket of a user to a shell of this machine. */
const places = [
  ['a terminal of a server', { store: 'sqlite' }, []],
  ['a terminal of a server, by another replica than that of its agent', { store: 'etcd', replicas: 2 }, [longTag]],
] as const;
for (const [name, options, tags] of places) describe(name, { tags: [...tags] }, () => live(options));

function live(options: InstallationOptions): void {
  let town: Installation;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-terminal-'));
    town = await Installation.start(options);
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  async function open(body: object = {}) {
    const client = options.store === 'etcd' ? town.clientAt(1 - (await town.replicaOfAgent())) : town.client;
    return openTerminal(client, town.server.id, body);
  }

  it('has full-screen programs that fill it, also after its size has changed, and brings the exit code back', async () => {
    const file = join(folder, 'written');
    const user = await open({ cols: 91, rows: 31 });
    user.type(`busybox vi ${file}\r`);
    await user.shows(`${escape}[31;1H`); // the last line
    expect(emptyLines(user.text())).toBe(29);
    user.forget();
    user.resize(120, 45);
    await user.shows(`${escape}[45;1H`);
    expect(emptyLines(user.text())).toBe(43);
    user.type('igrüße\rof vi');
    user.type(escape);
    await user.shows(new RegExp(`\\[K- [^${escape}\\n]*Modified`)); // it takes commands again
    user.type(':wq\r');
    await until('the file is written', async () => (await readFile(file, 'utf8')) === 'grüße\nof vi\n', {
      explain: async () => JSON.stringify(user.text().slice(-600)),
    });
    user.forget();
    user.type('stty size; stty -a\r');
    await user.shows('45 120\r\n');
    await user.shows(/[^-]icanon[^]*[^-]echo /); // vi left the terminal as it had found it
    user.type(`busybox less ${file}\r`);
    await user.shows('of vi');
    user.forget();
    user.type('q');
    await user.shows(/[#$] /); // what is typed before is read by less
    user.type('exit 3\r');
    await user.closed;
    expect(user.end()).toEqual({ type: 'exit', code: 3 });
  });

  it('ends everything that was started from it when its user leaves', async () => {
    const mark = `mark-${randomUUID()}`;
    const user = await open();
    user.type(`${leftBehind(mark)}; echo st""arted\r`);
    await user.shows('started\r\n');
    await until('they run', async () => (await processesWith(mark)).length === 2);
    user.socket.terminate();
    await until('they are gone', async () => (await processesWith(mark)).length === 0, { timeoutMs: 15_000 });
  });

  it('leaves nothing of itself when the agent is killed and starts again', async () => {
    const mark = `mark-${randomUUID()}`;
    const user = await open();
    user.type(`${leftBehind(mark)}; exec sh -c ': ${mark}; echo st""arted; sleep 1000'\r`);
    await user.shows('started\r\n');
    await until('they run', async () => (await processesWith(mark)).length === 3);
    await town.agent.kill();
    await until('the kernel hung it up', async () => (await processesWith(mark)).length === 2);
    await user.closed;
    town.agent.start();
    await until('the agent ended the rest', async () => (await processesWith(mark)).length === 0);
    const again = await until('there are terminals again', () => open());
    again.type('exit 0\r');
    await again.closed;
  });

  it(
    'waits for a user who does not read, with little memory, and harms no other one',
    { tags: [longTag] },
    async () => {
      const slow = await open();
      await slow.shows(/[#$] /);
      const before = await memoryOf(town.agent.pid);
      slow.socket.pause();
      slow.type(`head -c 200000000 /dev/zero | tr '\\0' x\r`);
      const writer = await until('it writes', async () => {
        for (const pid of await processesWith('tr\0\\0\0x\0')) return pid;
        return undefined;
      });
      expect(await standsStill('its writer', async () => (await writtenBy(writer)) || undefined)).toBeLessThan(
        20_000_000,
      );
      expect((await memoryOf(town.agent.pid)) - before).toBeLessThan(40_000_000);
      const other = await open();
      other.type('echo he""re; exit 4\r');
      await other.closed;
      expect(other.text()).toContain('here\r\n');
      expect(other.end()).toEqual({ type: 'exit', code: 4 });
      slow.socket.terminate();
      await until('its program is gone', async () => (await processesWith('tr\0\\0\0x\0')).length === 0);
    },
  );

  it('passes a burst of 20 MB with little memory', { tags: [longTag] }, async () => {
    const user = await open();
    await user.shows(/[#$] /);
    const before = await memoryOf(town.agent.pid);
    user.type(`head -c 20000000 /dev/zero | tr '\\0' x; exit 0\r`);
    await user.closed;
    expect(user.bytes()).toBeGreaterThan(20_000_000);
    expect((await memoryOf(town.agent.pid)) - before).toBeLessThan(40_000_000);
  });
}

/** Starts two programs that outlive a hang-up: one in the session of the terminal, one in its own. */
function leftBehind(mark: string): string {
  const program = `sh -c 'trap "" HUP; : ${mark}; sleep 1000; :'`;
  return `${program} & setsid ${program} </dev/null >/dev/null 2>&1 & sleep 0.3`;
}

/** Lines that vi shows as beyond the end of the file. */
function emptyLines(screen: string): number {
  return new Set([...screen.matchAll(/\[(\d+);1H~/g)].map(([, row]) => row)).size;
}
