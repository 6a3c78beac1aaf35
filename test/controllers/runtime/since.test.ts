import { expect, test } from 'vitest';
import type { Context, Controller } from '../../../controllers/runtime/controller.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { keys } from '../../../store/keys.ts';
import { createProject, id, openRig, type Rig } from './rig.ts';

/** A controller of projects that asks `ask` in each run and records the answers. */
function asking<T>(ask: (ctx: Context) => T) {
  const answers: T[] = [];
  const controller: Controller<'project'> = {
    name: 'project',
    kind: 'project',
    reads: [],
    children: [],
    wakes: [],
    async reconcile(_, ctx) {
      answers.push(ask(ctx));
      return {
        observed: { phase: 'active' },
        conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
        next: { settled: true },
      };
    },
  };
  return { controller, answers };
}

async function runAfter(rig: Rig, ms: number): Promise<void> {
  await rig.clock.advance(ms);
  rig.controllers.resync();
  await rig.rest();
}

test('a condition lasts from the first run that found it to hold, until a run finds that it does not', async () => {
  let isOn = false;
  const { controller, answers } = asking((ctx) => ctx.since('away', isOn));
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  isOn = true;
  await runAfter(rig, 100);
  await runAfter(rig, 300);
  await runAfter(rig, 50);
  isOn = false;
  await runAfter(rig, 50);
  isOn = true;
  await runAfter(rig, 50);
  await runAfter(rig, 10);
  expect(answers).toEqual([0, 0, 300, 350, 0, 0, 10]);
});

test('conditions of one name are counted apart for each object and for each name', async () => {
  const seen = new Map<string, number[]>();
  const { controller } = asking(() => undefined);
  controller.reconcile = async (it, ctx) => {
    const { name } = it.desired;
    const both = [ctx.since('away', true), ctx.since('slow', name === 'two')];
    seen.set(name, [...(seen.get(name) ?? []), ...both]);
    return { observed: { phase: 'active' }, conditions: [ready], next: { settled: true } };
  };
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  await rig.clock.advance(100);
  await createProject(rig.repo, 'two');
  await rig.rest();
  await runAfter(rig, 20);
  expect(seen).toEqual(
    new Map([
      ['one', [0, 0, 120, 0]],
      ['two', [0, 0, 20, 20]],
    ]),
  );
});

test('a new term begins to count anew', async () => {
  const { controller, answers } = asking((ctx) => ctx.since('away', true));
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'one');
  await rig.rest();
  await runAfter(rig, 100);
  await rig.store.txn({ if: [], then: [{ delete: keys.leader('controllers') }] });
  await rig.clock.advance(limits.leader.jitterMs);
  await rig.rest();
  expect(answers).toEqual([0, 100, 0]);
});

test('what is kept of an object goes with it', async () => {
  const { controller, answers } = asking((ctx) => ctx.since('away', true));
  await using rig = await openRig({ controllers: [controller] });
  const it = await createProject(rig.repo, 'one');
  await rig.rest();
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get('project', it))!);
  await unit.commit();
  await rig.rest();
  await rig.clock.advance(100);
  expect(await rig.repo.get('project', it)).toBeUndefined();
  await createProject(rig.repo, 'one');
  await rig.rest();
  expect(it).toBe(id('one'));
  expect(answers).toEqual([0, 0]);
});

const ready = { type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' } as const;
