import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { functionVersionController } from '../../../controllers/function-version/reconcile.ts';
import { keys } from '../../../store/keys.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { revision } from '../../../store/revision.ts';
import { commit } from '../../../store/unit.ts';
import { aServer } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { openRig, tenant } from '../runtime/rig.ts';

const controllers = [
  functionVersionController({
    recipe: ({ code }) => ({ dockerfile: 'FROM scratch\n', files: { handler: code } }),
    buildDeadlineMs: 600_000,
  }),
];

test('a build goes only after its version has stored what it made, so that its server never lacks both', async () => {
  await using rig = await openRig({ controllers });
  const [server, of, version] = [aServer(), randomUUID(), randomUUID()];
  const unit = rig.repo.begin();
  unit.create('server', server.meta.id, server.desired);
  unit.create('function', of, desiredState('function', { server_id: server.meta.id }));
  unit.create(
    'function_version',
    version,
    desiredState('function_version', { function_id: of, server_id: server.meta.id }),
  );
  await commit(unit);
  await rig.rest();
  const build = rig.mirror.tenant(tenant).by('assignment', 'version', version)[0]?.meta.id ?? '';
  const it = (await rig.repo.get('assignment', build))!;
  const report = kinds.assignment.observed.parse({ phase: 'succeeded', image_digest: `sha256:${'0'.repeat(64)}` });
  const since = await rig.store.revision();
  await rig.repo.observe(it, { ...report, observedGeneration: it.meta.generation, conditions: [] }, []);
  await rig.rest();
  const order: string[] = [];
  const last = await rig.store.revision();
  for await (const batch of rig.store.watch(keys.all, revision(since + 1), AbortSignal.timeout(10_000))) {
    for (const { key, value } of batch.events) {
      if (key === keys.observed(tenant, 'function_version', version) && value?.includes('"ready"') === true)
        order.push('stored');
      if (key === keys.desired(tenant, 'assignment', build)) order.push('gone');
    }
    if (batch.revision >= last) break;
  }
  expect(order.slice(0, 2)).toEqual(['stored', 'gone']);
});

test('a version that takes the image of an earlier one builds nothing, and has what its variables refer to now', async () => {
  await using rig = await openRig({ controllers });
  const [server, of, version, database] = [aServer(), randomUUID(), randomUUID(), randomUUID()];
  const [environment_id, config] = [randomUUID(), { env: {}, references: ['${databases.orders.host}'] }];
  const reuse = { number: 1, image: 'setpoint/hello:1', image_digest: `sha256:${'0'.repeat(64)}` };
  const unit = rig.repo.begin();
  unit.create('server', server.meta.id, server.desired);
  unit.create('database', database, desiredState('database', { environment_id, name: 'orders' }));
  unit.create('function', of, desiredState('function', { server_id: server.meta.id, environment_id }));
  unit.create(
    'function_version',
    version,
    desiredState('function_version', { function_id: of, server_id: server.meta.id, config, reuse }),
  );
  await commit(unit);
  await rig.rest();
  expect(rig.mirror.tenant(tenant).by('assignment', 'version', version)).toEqual([]);
  expect((await rig.repo.get('function_version', version))?.observed).toMatchObject({
    phase: 'ready',
    image: 'setpoint/hello:1',
    image_digest: reuse.image_digest,
    references: { '${databases.orders.host}': 'orders-0a1b2c' },
  });
});

test('a build has its whole time once it begins, and one that never has its turn says so', async () => {
  for (const [begun, deadline, why] of [
    [true, 660_000, 'did not end in time'],
    [false, 3_600_000, 'did not begin in time'],
  ] as const) {
    await using rig = await openRig({ controllers });
    const [server, of, version] = [aServer(), randomUUID(), randomUUID()];
    const unit = rig.repo.begin();
    unit.create('server', server.meta.id, server.desired);
    unit.create('function', of, desiredState('function', { server_id: server.meta.id }));
    const wanted = desiredState('function_version', { function_id: of, server_id: server.meta.id });
    unit.create('function_version', version, wanted);
    await commit(unit);
    await rig.rest();
    const report = async (phase: 'pending' | 'running'): Promise<void> => {
      const [build] = rig.mirror.tenant(tenant).by('assignment', 'version', version);
      const it = (await rig.repo.get('assignment', build!.meta.id))!;
      const reported = kinds.assignment.observed.parse({ phase });
      await rig.repo.observe(it, { ...reported, observedGeneration: it.meta.generation, conditions: [] }, []);
      await rig.rest();
    };
    const observed = () => rig.mirror.tenant(tenant).get('function_version', version)!.observed!;
    await report('pending');
    expect(observed().conditions.find(({ type }) => type === 'Ready')?.reason).toBe('Queued');
    if (begun) {
      await rig.clock.advance(3_000_000);
      await report('running');
    }
    await rig.clock.advance(deadline - 1_000);
    await rig.rest();
    expect(observed().phase).toBe('building');
    await rig.clock.advance(1_000);
    await rig.rest();
    expect(observed().error).toMatchObject({ code: 'build_timeout', message: expect.stringContaining(why) });
  }
});
