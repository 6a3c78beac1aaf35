import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ServerLogPage } from '../../../agent-protocol/logs.ts';
import { OwnLines } from '../../../agent/logs/own-lines.ts';
import type { Entry } from '../../../agent/logs/record.ts';
import type { AgentLogs } from '../../../cli/agent.ts';
import { createLog } from '../../../cli/log.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { idle } from '../../harness/idle.ts';
import { joinToken } from '../../harness/join-token.ts';
import { AgentWorld, service } from '../agent-world.ts';

/** The logs of an agent, as the program makes them, with a clock of the test. */
function logsOf(clock: FakeClock): AgentLogs & { printed: string[] } {
  const printed: string[] = [];
  const ownLines = new OwnLines(clock);
  const print = (line: string): void => void printed.push(line);
  const both = (line: string): void => {
    print(line);
    ownLines.write(line);
  };
  return {
    printed,
    ownLines,
    log: createLog({ level: 'info' }, { write: both }),
    storeLog: createLog({ level: 'info' }, { write: print }),
  };
}

describe('lines of the agent', () => {
  let clock: FakeClock;
  let kept: Entry[];
  beforeEach(() => {
    clock = new FakeClock();
    kept = [];
  });

  it('have a level, a time and their fields, and no secrets', () => {
    const { ownLines, log } = logsOf(clock);
    log.warn({ server: 's', token: 'hunter2', err: new Error('two\nlines') }, `with ${joinToken(crypto.randomUUID())}`);
    ownLines.passTo((entries) => void kept.push(...entries));
    log.error('later');
    expect(kept).toMatchObject([
      { level: 'warn', stream: 'stdout', instance: 'agent', at: expect.any(Number) },
      { level: 'error', message: 'later' },
    ]);
    const [{ message } = { message: '' }] = kept;
    expect(message).toMatch(
      /^with sj_\*\*\* \{"server":"s","token":"\[redacted\]","err":\{"type":"Error","message":"two\\nlines"/,
    );
    expect(message).not.toContain('\n');
  });

  it('that come in a flood are left out and counted, so that no loop fills the log store', async () => {
    const { ownLines, log, printed } = logsOf(clock);
    // a log store that logs each line that it keeps
    ownLines.passTo((entries) => {
      kept.push(...entries);
      log.info('kept a line');
    });
    log.info('begin');
    expect(kept.length).toBeLessThanOrEqual(500);
    for (let n = 0; n < 10_000; n += 1) log.info(`line ${n}`);
    expect(kept.length).toBeLessThanOrEqual(500);
    expect(printed.length).toBeGreaterThan(10_000);
    await clock.advance(1_000);
    log.info('after');
    const gap = kept.find(({ stream }) => stream === 'system');
    expect(gap?.message).toMatch(/^1\d{4} lines of the agent were left out here/);
    expect(kept.length).toBeLessThanOrEqual(525);
  });

  it('that are long are cut, and those that are no JSON are kept as they are', () => {
    const ownLines = new OwnLines(clock);
    ownLines.passTo((entries) => void kept.push(...entries));
    ownLines.write(JSON.stringify({ time: 1, level: 30, msg: 'ü'.repeat(100_000) }));
    ownLines.write('plain\u001b[2J\n');
    expect(Buffer.byteLength(kept[0]?.message ?? '')).toBeLessThan(16 * 1024);
    expect(kept[1]?.message.trim()).toBe('plain');
  });
});

describe('the log of an agent', () => {
  let world: AgentWorld;
  beforeEach(async () => {
    world = await AgentWorld.create();
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const read = async (ids?: string[]): Promise<ServerLogPage['lines']> => {
    const query = { tail: 500, ...(ids && { workload_ids: ids }) };
    const page = await world.agent.backend.call({ method: 'logs.server', query }, AbortSignal.timeout(5_000));
    return (page as ServerLogPage).lines;
  };

  it('is read with the lines of its workloads, and survives its restart', async () => {
    const first = logsOf(world.clock);
    first.log.info('before the start');
    await world.start(first);
    first.log.info('while it runs');
    const item = service();
    await world.snapshot(item);
    await world.until('it runs', () => world.report(item)?.phase === 'running');
    await world.stop();
    first.log.info('after its end');
    const second = logsOf(world.clock);
    await world.start(second);
    second.log.info('after its restart');
    await idle();
    const messages = (await read(['agent'])).map(({ message }) => message);
    expect(messages.filter((it) => /before|while|after/.test(it))).toEqual([
      'before the start',
      'while it runs',
      'after its restart',
    ]);
  });

  it('has no line about its log store, and the log store none about itself', async () => {
    const logs = logsOf(world.clock);
    await world.start(logs);
    logs.log.info('one');
    await idle();
    const folder = join(world.dir, 'logs', 'agent');
    // the next segment cannot be made and the present one is gone
    await world.clock.advance(60_000);
    await idle();
    await rename(folder, `${folder}-away`);
    await writeFile(folder, 'no folder');
    for (let second = 0; second < 5; second += 1) {
      logs.log.info(`lost ${second}`);
      await idle();
      await world.clock.advance(1_000);
    }
    const complaints = (): string[] => logs.printed.filter((line) => line.includes('Cannot write the output'));
    expect(complaints()).toHaveLength(1);
    await rm(folder);
    await rename(`${folder}-away`, folder);
    await mkdir(folder, { recursive: true });
    for (let second = 0; second < 5; second += 1) {
      await idle();
      await world.clock.advance(1_000);
    }
    logs.log.info('two');
    await idle();
    const messages = (await read(['agent'])).map(({ message }) => message);
    expect(messages.join('\n')).not.toContain('Cannot write');
    const about = messages.filter((it) => /dropped|two/.test(it));
    expect(about.toSorted()).toEqual(['5 lines were dropped as the disk did not take them', 'two']);
  });
});
