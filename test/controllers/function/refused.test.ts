import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { functionController } from '../../../controllers/function/reconcile.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { commit } from '../../../store/unit.ts';
import { aServer } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant } from '../runtime/rig.ts';

test('a version that does not start leaves the one before in its place, until it is asked for again', async () => {
  await using rig = await openRig({ controllers: [functionController] });
  const [server, of, first, second] = [aServer(), randomUUID(), randomUUID(), randomUUID()];
  const unit = rig.repo.begin();
  unit.create('server', server.meta.id, server.desired);
  unit.create(
    'function',
    of,
    desiredState('function', { server_id: server.meta.id, run: 'running', version_id: first, attempt: 0 }),
  );
  for (const [number, id] of [first, second].entries())
    unit.create(
      'function_version',
      id,
      desiredState('function_version', { function_id: of, server_id: server.meta.id, number: number + 1 }),
    );
  await commit(unit);
  for (const id of [first, second]) {
    const it = (await rig.repo.get('function_version', id))!;
    const built = { phase: 'ready' as const, image: `hello:${id}`, image_digest: `sha256:${'0'.repeat(64)}` };
    await rig.repo.observe(it, { ...built, observedGeneration: it.meta.generation, conditions: [] }, []);
  }
  await rig.rest();
  const served = (): ReadonlyResource<'assignment'> => rig.mirror.tenant(tenant).by('assignment', 'workload', of)[0]!;
  const fn = async (): Promise<ReadonlyResource<'function'>> => (await rig.repo.get('function', of))!;
  const report = async (more: Partial<ObservedOf<'assignment'>>): Promise<void> => {
    const it = (await rig.repo.get('assignment', served().meta.id))!;
    const said = kinds.assignment.observed.parse({ phase: 'running', ready: true, ...more });
    await rig.repo.observe(it, { ...said, observedGeneration: it.meta.generation, conditions: [] }, []);
    await rig.clock.advance(10_000); // runs of an object are spaced
    await rig.rest();
  };
  const change = async (wanted: Partial<ReadonlyResource<'function'>['desired']>): Promise<void> => {
    const unit = rig.repo.begin();
    unit.change(await fn(), (draft) => Object.assign(draft, wanted));
    await commit(unit);
    await rig.rest();
  };
  const reason = async () => (await fn()).observed?.conditions.find(({ type }) => type === 'Ready')?.reason;

  await report({});
  expect([(await fn()).observed?.active_version_id, await reason()]).toEqual([first, 'Serving']);
  const isWarm = () => 'warm' in served().desired.spec;
  expect(isWarm()).toBe(false);
  await change({ version_id: second, attempt: 1 });
  expect([served().desired.version, isWarm()]).toEqual([second, true]);
  expect((await fn()).observed?.active_version_id).toBe(first);
  await report({ error: { code: 'not_started', message: 'its process ended: no database' } });
  expect(served().desired.version).toBe(first);
  expect([(await fn()).observed?.active_version_id, await reason()]).toEqual([first, 'VersionFailed']);
  await report({});
  expect((await fn()).observed).toMatchObject({ phase: 'running', refused: { attempt: 1 }, active_version_id: first });
  expect((await fn()).observed?.conditions.find(({ type }) => type === 'Ready')?.message).toContain('no database');

  await change({ attempt: 2 });
  expect([served().desired.version, isWarm()]).toEqual([second, true]);
  await report({});
  expect([(await fn()).observed?.active_version_id, isWarm()]).toEqual([second, false]);
  await report({});
  expect([(await fn()).observed?.active_version_id, await reason()]).toEqual([second, 'Serving']);
  expect([(await fn()).observed?.refused, isWarm()]).toEqual([undefined, false]);

  // settings that no instance starts with: its server is to try before it serves, also after its agent began anew
  await report({});
  await change({ memory_limit: '8m' });
  const fails = { code: 'not_started' as const, message: 'its process ended' };
  await report({ error: fails });
  expect(isWarm()).toBe(true);
  await report({ error: fails });
  expect([await reason(), isWarm()]).toEqual(['NotStarted', true]);
  await report({ ready: false, error: fails });
  expect([(await fn()).observed?.phase, isWarm()]).toEqual(['error', true]);
  await change({ memory_limit: '64m' });
  await report({});
  await report({});
  expect([await reason(), isWarm()]).toEqual(['Serving', false]);
});
