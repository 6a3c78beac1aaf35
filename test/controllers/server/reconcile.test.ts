import { describe, expect, it } from 'vitest';
import type { Context } from '../../../controllers/runtime/controller.ts';
import { serverController } from '../../../controllers/server/reconcile.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { object } from '../../harness/objects.ts';

const server = object(
  'server',
  { name: 'one', agent_public_key: 'key' },
  { observed: { phase: 'active', machine_id: 'm' } },
);

it('is patient with an agent that went away, anew in each term of a leader', async () => {
  const clock = new FakeClock();
  const controller = serverController({ offlineAfterMs: 25_000 });
  // All that this controller asks for while an agent is away.
  const ctx = {
    view: { agent: () => undefined, heldRemovals: () => undefined },
    clock,
    event: () => undefined,
    notify: async () => undefined,
  };
  const phase = async () => (await controller.reconcile(server, ctx as unknown as Context)).observed.phase;
  controller.begin?.();
  expect(await phase()).toBe('active');
  await clock.advance(24_000);
  expect(await phase()).toBe('active');
  await clock.advance(3_600_000);
  controller.begin?.();
  expect(await phase()).toBe('active');
  await clock.advance(25_000);
  expect(await phase()).toBe('offline');
});

describe('a server whose container engine cannot be used', () => {
  const trouble = { reason: 'EngineNotRunning', message: 'The container engine does not answer: start it' };
  const connected = { replica: 'r', session: 's', epoch: 1, machineId: 'm' };
  const rig = () => {
    const events: string[] = [];
    const told: string[] = [];
    let agent: object | undefined;
    const clock = new FakeClock();
    const controller = serverController({ offlineAfterMs: 25_000 });
    const ctx = {
      view: { agent: () => agent, heldRemovals: () => undefined },
      clock,
      event: (_: unknown, { reason }: { reason: string }) => events.push(reason),
      notify: async (_: unknown, __: string, { type }: { type: string }) => void told.push(type),
    };
    let it = server;
    return {
      clock,
      events,
      told,
      look: async (now: object | undefined) => {
        agent = now;
        const verdict = await controller.reconcile(it, ctx as unknown as Context);
        it = { ...server, observed: { ...server.observed!, ...verdict.observed } };
        const engine = verdict.conditions.find(({ type }) => type === 'EngineReady');
        return { phase: verdict.observed.phase, engine, next: verdict.next };
      },
    };
  };

  it('is in error with what to do, and active again by itself', async () => {
    const { look, events, told } = rig();
    expect(await look({ ...connected, engineTrouble: trouble })).toMatchObject({
      phase: 'error',
      engine: { status: 'false', ...trouble },
    });
    expect(await look(connected)).toMatchObject({ phase: 'active', engine: { status: 'true' } });
    expect(events).toEqual(['EngineNotRunning', 'EngineAnswers']);
    expect(told).toEqual(['server_error', 'server_online']);
  });

  it('is offline once its agent has been away for as long as any other', async () => {
    const { look, clock } = rig();
    await look({ ...connected, engineTrouble: trouble });
    expect(await look(undefined)).toMatchObject({
      phase: 'error',
      next: { again: 25_000 },
      engine: { status: 'unknown' },
    });
    await clock.advance(25_000);
    expect(await look(undefined)).toMatchObject({ phase: 'offline' });
  });
});

it('says what is held since the store was rewound and how to release it, until that is confirmed', async () => {
  const controller = serverController({ offlineAfterMs: 25_000 });
  const held = async (confirmed: boolean | undefined) => {
    const removals = confirmed === undefined ? undefined : { held: 3, confirmed };
    // all that this controller asks for while an agent is connected
    const ctx = { view: { agent: () => ({ epoch: 1 }), heldRemovals: () => removals }, clock: new FakeClock() };
    const { conditions } = await controller.reconcile(server, ctx as unknown as Context);
    return conditions.find((one) => one.type === 'RemovalsHeld');
  };
  expect(await held(false)).toMatchObject({ status: 'true', reason: 'StoreRewound' });
  expect((await held(false))?.message).toMatch(/3 of the instances.*confirm-removals/);
  expect(await held(true)).toBeUndefined();
  expect(await held(undefined)).toBeUndefined();
  expect(controller.keyWakes?.({ area: 'removals', tenant: 't', server: 's' })).toEqual({ tenant: 't', id: 's' });
});
