import { expect, it } from 'vitest';
import { planClone } from '../../../controllers/environment/plan.ts';
import { copyIdOf } from '../../../store/copying.ts';
import { commit } from '../../../store/unit.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

it('a copy that is being deleted is none: the clone waits for its end and is not complete', async () => {
  await using rig = await openRig();
  const [source, clone, app] = [id('source'), id('clone'), id('web')];
  const clone_of = { environment_id: source, server_map: {}, complete: false };
  const unit = rig.repo.begin();
  unit.create('environment', source, desiredState('environment'));
  unit.create('environment', clone, desiredState('environment', { clone_of }));
  unit.create('application', app, desiredState('application', { environment_id: source }));
  await commit(unit);
  const { meta } = (await rig.repo.get('application', app))!;
  const copying = rig.repo.begin();
  copying.create('application', copyIdOf(clone, app), desiredState('application', { environment_id: clone }), {
    copyOf: { id: app, revision: meta.desiredRevision },
  });
  await commit(copying);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const plan = () => planClone(view.get('environment', clone)!, view);
  expect(plan()).toMatchObject({ action: { do: 'complete' }, copied: 1, total: 1 });

  const copy = (await rig.repo.get('application', copyIdOf(clone, app)))!;
  const deleting = rig.repo.begin();
  deleting.requestDelete(copy);
  await commit(deleting);
  await rig.rest();
  expect(plan()).toMatchObject({
    action: { do: 'await', copies: [{ meta: { id: copy.meta.id } }] },
    copied: 0,
    total: 1,
  });
});

it('the volume of a restore that has not ended is left out', async () => {
  await using rig = await openRig();
  const [source, clone] = [id('source'), id('clone')];
  const clone_of = { environment_id: source, server_map: {}, complete: false };
  const unit = rig.repo.begin();
  unit.create('environment', source, desiredState('environment'));
  unit.create('environment', clone, desiredState('environment', { clone_of }));
  unit.create('server', id('one'), desiredState('server'));
  for (const name of ['notes', 'scratch'])
    unit.create('volume', id(name), desiredState('volume', { environment_id: source, server_id: id('one'), name }));
  const of = { kind: 'volume' as const, id: id('notes') };
  unit.create('restore', id('drill'), desiredState('restore', { of, volume_id: id('scratch'), is_drill: true }));
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  expect(planClone(view.get('environment', clone)!, view)).toMatchObject({
    action: { do: 'copy', sources: [{ meta: { id: id('notes') } }] },
    total: 1,
  });
});

it('a former volume is left out, but not one that something mounts', async () => {
  await using rig = await openRig();
  const [source, clone] = [id('source'), id('clone')];
  const place = { environment_id: source, server_id: id('one') };
  const clone_of = { environment_id: source, server_map: {}, complete: false };
  const unit = rig.repo.begin();
  unit.create('environment', source, desiredState('environment'));
  unit.create('environment', clone, desiredState('environment', { clone_of }));
  unit.create('server', id('one'), desiredState('server'));
  const expires_at = '2031-01-01T00:00:00.000Z';
  unit.create('volume', id('notes'), desiredState('volume', { ...place, name: 'notes' }));
  for (const name of ['former', 'mounted'])
    unit.create('volume', id(name), desiredState('volume', { ...place, name, expires_at }));
  const mounts = [{ volume_id: id('mounted'), path: '/data', read_only: false }];
  unit.create('application', id('web'), desiredState('application', { ...place, mounts }));
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const { action } = planClone(view.get('environment', clone)!, view);
  const sources = action.do === 'copy' ? action.sources.map(({ meta }) => meta.id).toSorted() : action.do;
  expect(sources).toEqual([id('notes'), id('mounted'), id('web')].toSorted());
});

it('of the volumes of a database the one is copied that it serves from, also while the restore that made it has not ended', async () => {
  await using rig = await openRig();
  const [source, clone] = [id('source'), id('clone')];
  const place = { environment_id: source, server_id: id('one') };
  const unit = rig.repo.begin();
  unit.create('environment', source, desiredState('environment'));
  unit.create(
    'environment',
    clone,
    desiredState('environment', { clone_of: { environment_id: source, server_map: {}, complete: false } }),
  );
  unit.create('server', id('one'), desiredState('server'));
  unit.create('database', id('orders'), desiredState('database', { ...place, data_volume_id: id('data') }));
  for (const name of ['data', 'fresh'])
    unit.create('volume', id(name), desiredState('volume', { ...place, name, database_id: id('orders') }));
  const of = { kind: 'database' as const, id: id('orders') };
  unit.create('restore', id('back'), desiredState('restore', { of, volume_id: id('fresh') }));
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const sources = () => {
    const { action } = planClone(view.get('environment', clone)!, view);
    return action.do === 'copy' ? action.sources.map(({ meta }) => meta.id).toSorted() : action.do;
  };
  expect(sources()).toEqual([id('orders'), id('data')].toSorted());
  await rig.repo.change('database', id('orders'), (draft) => void (draft.data_volume_id = id('fresh')));
  await rig.rest();
  expect(sources()).toEqual([id('orders'), id('fresh')].toSorted());

  // its copy may come before that of the database
  const { meta } = (await rig.repo.get('volume', id('fresh')))!;
  const copying = rig.repo.begin();
  const database_id = copyIdOf(clone, id('orders'));
  const copy = desiredState('volume', { ...place, environment_id: clone, name: 'fresh', database_id });
  const copyOf = { id: id('fresh'), revision: meta.desiredRevision };
  copying.create('volume', copyIdOf(clone, id('fresh')), copy, { copyOf });
  await commit(copying);
  await rig.rest();
  expect(planClone(view.get('environment', clone)!, view)).toMatchObject({ copied: 1, total: 2 });
});
