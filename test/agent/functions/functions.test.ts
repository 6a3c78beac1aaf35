import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { FunctionRequest } from '../../../agent-protocol/functions.ts';
import type { Execution } from '../../../agent-protocol/functions.ts';
import { bounds } from '../../../agent-protocol/timing.ts';
import { Activator } from '../../../agent/functions/activator.ts';
import { ExecutionLog } from '../../../agent/functions/execution-log.ts';
import { arrivalMs, Functions, mostAsked } from '../../../agent/functions/functions.ts';
import { closedGate } from '../../../agent/functions/gate.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

function world(): { functions: Functions; clock: FakeClock; ended: Execution[] } {
  const clock = new FakeClock();
  const ended: Execution[] = [];
  const log = {
    add: (_: string, it: Execution) => void ended.push(it),
    read: async () => ({ items: [], more: false }),
    position: async () => undefined,
    count: async () => 0,
  };
  return { functions: new Functions({ log, clock }), clock, ended };
}

const request = FunctionRequest.parse({ method: 'GET', path: '/' });
const { signal } = new AbortController();

describe('functions of a server', () => {
  it('end a page of executions before it has more bytes than an answer may have', async () => {
    const clock = new FakeClock();
    const items = Array.from({ length: 200 }, (_, index): Execution => {
      const started_at = new Date(clock.now().getTime() - index).toISOString();
      const usual = { version_id: 'one', trigger: 'http', status: 'succeeded', cold_start: false } as const;
      return { ...usual, id: `${index}`, started_at, method: 'GET', path: '/', log_preview: 'あ'.repeat(2000) };
    });
    const log = {
      add: () => undefined,
      read: async () => ({ items, more: false }),
      position: async () => undefined,
      count: async () => items.length,
    };
    const page = await new Functions({ log, clock }).executions({ function_id: 'one', limit: 200 });
    expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThan(bounds.resultBytes);
    expect(page.items).toEqual(items.slice(0, page.items.length));
    expect([page.items.length > 50, page.more]).toEqual([true, true]);
  });

  it('record an instant that nothing was called for, as none serves', async () => {
    const { functions, ended, clock } = world();
    const [before, at] = ['2030-01-01T00:00:00.000Z', '2030-01-01T00:10:00.000Z'];
    const fired = functions.fire({ function_id: 'one', scheduled_at: at, missed: [before] }, signal);
    fired.catch(() => undefined); // it is looked at below
    await clock.advance(arrivalMs);
    await expect(fired).rejects.toMatchObject({ code: 'not_serving' });
    expect(ended.map(({ status, scheduled_at }) => [status, scheduled_at])).toEqual([
      ['missed', before],
      ['missed', at],
    ]);
  });

  it('make a call by a schedule once they are served, as after a start of their server', async () => {
    const { functions, clock, ended } = world();
    const deps = { clock, log: pino({ level: 'silent' }), lastLines: () => [], changed: () => undefined };
    const record = (it: Execution): void => functions.record('one', it);
    const activator = new Activator({ ...deps, record, forward: closedGate.forward });
    const at = '2030-01-01T00:10:00.000Z';
    const fired = functions.fire({ function_id: 'one', scheduled_at: at, missed: [] }, signal);
    await clock.advance(20_000);
    const instance = {
      address: '127.0.0.1',
      port: 1,
      ended: new Promise<never>(() => undefined),
      stop: async () => {},
    };
    await activator.become(
      {
        version: 'one',
        concurrency: 1,
        minInstances: 0,
        maxInstances: 1,
        timeoutMs: 1000,
        launch: async () => instance,
      },
      signal,
    );
    functions.serve('one', activator, 'a project');
    expect(await fired).toMatchObject({ status: 'succeeded' });
    expect(ended.map(({ status, scheduled_at }) => [status, scheduled_at])).toEqual([['succeeded', at]]);
    activator.abandon();
  });

  it('take some calls by the API at a time', async () => {
    const { functions, clock } = world();
    const log = pino({ level: 'silent' });
    const deps = {
      clock,
      log,
      record: () => undefined,
      lastLines: () => [],
      changed: () => undefined,
      forward: closedGate.forward,
    };
    const activator = new Activator(deps);
    await activator.become(
      {
        version: 'one',
        concurrency: 1,
        minInstances: 0,
        maxInstances: 1,
        timeoutMs: 1000,
        launch: () => new Promise(() => undefined),
      },
      signal,
    );
    functions.serve('one', activator, 'a project');
    functions.serve('other', activator, 'a project');
    functions.serve('apart', activator, 'another project');
    functions.serve('third', activator, 'a third project');
    const ask = (id: string) => functions.ask({ function_id: id, request }, signal);
    const waiting = Array.from({ length: mostAsked.ofProject }, () => ask('one'));
    for (const id of ['one', 'other']) await expect(ask(id)).rejects.toMatchObject({ code: 'too_many' });
    for (let n = mostAsked.ofProject; n < mostAsked.onServer; n++) waiting.push(ask('apart'));
    await expect(ask('third')).rejects.toMatchObject({ code: 'too_many' });
    activator.abandon();
    const answers = await Promise.all(waiting);
    expect(answers.map(({ execution }) => execution.error?.code)).toEqual(answers.map(() => 'not_running'));
    // their places are free again
    await expect(functions.ask({ function_id: 'one', request }, signal)).resolves.toMatchObject({
      execution: { error: { code: 'not_running' } },
    });
  });

  it('show each call once in pages, those that run and those that have ended, those that began last first', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-executions-'));
    try {
      const clock = new FakeClock();
      await using log = new ExecutionLog(join(folder, 'executions.db'), { clock, log: pino({ level: 'silent' }) });
      const functions = new Functions({ log, clock });
      const began: string[] = [];
      const begin = async (): Promise<Execution> => {
        const it = {
          id: crypto.randomUUID(),
          version_id: 'one',
          trigger: 'http' as const,
          status: 'running' as const,
          started_at: clock.now().toISOString(),
          cold_start: false,
          method: 'GET',
          path: '/',
        };
        functions.record('one', it);
        began.unshift(it.id);
        // several begin in one instant
        if (began.length % 3 === 0) await clock.advance(1);
        return it;
      };
      const end = (it: Execution): void => functions.record('one', { ...it, status: 'succeeded' });
      const pages = async (limit: number, between: () => void = () => undefined): Promise<string[]> => {
        const found: string[] = [];
        for (let before: string | undefined, more = true; more; between()) {
          const page = await functions.executions({ function_id: 'one', limit, before });
          found.push(...page.items.map(({ id }) => id));
          before = page.items.at(-1)?.id;
          ({ more } = page);
        }
        return found;
      };
      const all: Execution[] = [];
      for (let n = 0; n < 30; n += 1) all.push(await begin());
      expect(new Set(await pages(20))).toEqual(new Set(began));
      expect(await pages(20)).toHaveLength(30);
      for (const it of all.slice(0, 9)) end(it);
      end(all[20]!);
      expect(new Set(await pages(4))).toEqual(new Set(began));
      expect(await pages(4)).toHaveLength(30);
      for (const [status, total] of [
        [undefined, 30],
        [['running' as const], 20],
        [['succeeded' as const], 10],
      ] as const)
        expect(
          await functions.executions({ function_id: 'one', limit: 4, before: began[9], status: status && [...status] }),
        ).toMatchObject({ total });
      // each page ends with a call that has ended by the next one
      const running = all.filter((_, n) => n > 8 && n !== 20).toReversed();
      const found = await pages(4, () => {
        const it = running.splice(3, 1)[0];
        if (it !== undefined) end(it);
      });
      expect(found.toSorted()).toEqual(began.toSorted());
      expect(await functions.executions({ function_id: 'one', limit: 4, before: 'gone' })).toEqual({
        items: [],
        more: false,
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it.each(['CONNECT', 'TRACE', 'get'])('are not called by %s', (method) => {
    expect(FunctionRequest.safeParse({ method, path: '/' }).success).toBe(false);
  });
});
