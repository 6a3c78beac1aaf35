import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { FunctionRequest } from '../../../agent-protocol/functions.ts';
import type { Execution } from '../../../agent-protocol/functions.ts';
import { Activator } from '../../../agent/functions/activator.ts';
import { arrivalMs, Functions, mostAsked } from '../../../agent/functions/functions.ts';
import { closedGate } from '../../../agent/functions/gate.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

function world(): { functions: Functions; clock: FakeClock; ended: Execution[] } {
  const clock = new FakeClock();
  const ended: Execution[] = [];
  const log = {
    add: (_: string, it: Execution) => void ended.push(it),
    read: async () => ({ items: [], more: false }),
  };
  return { functions: new Functions({ log, clock }), clock, ended };
}

const request = FunctionRequest.parse({ method: 'GET', path: '/' });
const { signal } = new AbortController();

describe('functions of a server', () => {
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
    functions.serve('one', activator);
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
    functions.serve('one', activator);
    const waiting = Array.from({ length: mostAsked }, () => functions.ask({ function_id: 'one', request }, signal));
    await expect(functions.ask({ function_id: 'one', request }, signal)).rejects.toMatchObject({ code: 'too_many' });
    activator.abandon();
    const answers = await Promise.all(waiting);
    expect(answers.map(({ execution }) => execution.error?.code)).toEqual(answers.map(() => 'not_running'));
    // their places are free again
    await expect(functions.ask({ function_id: 'one', request }, signal)).resolves.toMatchObject({
      execution: { error: { code: 'not_running' } },
    });
  });

  it.each(['CONNECT', 'TRACE', 'get'])('are not called by %s', (method) => {
    expect(FunctionRequest.safeParse({ method, path: '/' }).success).toBe(false);
  });
});
