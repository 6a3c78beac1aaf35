import { describe, expect, it } from 'vitest';
import { firstPauseMs } from '../../../controllers/provision/provision.ts';
import { forgottenMs, Turns } from '../../../controllers/provision/turns.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { provisioningOf } from '../../../store/provisioning.ts';
import { settle } from '../../harness/fake-clock.ts';
import { id, tenant } from '../runtime/rig.ts';
import { hangingMachines } from './hanging-machines.ts';

describe('machines that hang while they are provisioned', () => {
  it('do not delay a look at another machine', async () => {
    await using it = await hangingMachines();
    await it.ask(20);
    await it.validate(id('server 20'));
    expect(it.rig.mirror.tenant(tenant).get('operation', id('validate'))?.observed).toMatchObject({
      phase: 'succeeded',
      result: { status: 'fail' },
    });
  });

  it('give way to those that wait, the first of them first', async () => {
    await using it = await hangingMachines();
    const { provisionings, runMs } = limits.operations;
    await it.ask(2 * provisionings);
    const servers = (from: number): string[] =>
      Array.from({ length: provisionings }, (_, n) => id(`server ${from + n + 1}`));
    expect(it.visited).toEqual(servers(0));
    const last = provisioningOf(id(`server ${2 * provisionings}`));
    expect(it.rig.mirror.tenant(tenant).get('operation', last)?.observed?.conditions).toContainEqual(
      expect.objectContaining({ message: 'an attempt of another server to end' }),
    );
    for (let ms = 0; ms < runMs + firstPauseMs / 2; ms += 1000) {
      await it.rig.clock.advance(1000);
      await settle(50);
    }
    expect(it.visited.toSorted()).toEqual(servers(provisionings).toSorted());
  });
});

describe('turns', () => {
  it('come in the order of the first requests', () => {
    const turns = new Turns(1);
    const first = turns.take('first', 0);
    expect(first).toBeDefined();
    expect([turns.take('second', 1), turns.take('third', 2)]).toEqual([undefined, undefined]);
    first?.[Symbol.dispose]();
    expect(turns.take('third', 3)).toBeUndefined();
    expect(turns.take('second', 4)).toBeDefined();
  });

  it('pass over one that asks no more', () => {
    const turns = new Turns(1);
    const first = turns.take('first', 0);
    turns.take('gone', 0);
    turns.take('third', 1);
    first?.[Symbol.dispose]();
    expect(turns.take('third', forgottenMs)).toBeUndefined();
    expect(turns.take('third', forgottenMs + 1)).toBeDefined();
  });
});
