import { pino } from 'pino';
import { expect, test } from 'vitest';
import { limits } from '../../../controllers/runtime/limits.ts';
import { keys } from '../../../store/keys.ts';
import { commit } from '../../../store/unit.ts';
import { desiredState } from '../../harness/states.ts';
import { id, openRig } from './rig.ts';

const first = { url: 'http://other.test', version: '1' };

test('a replica logs and counts what a leader of an earlier release does not know, until another one leads', async () => {
  const lines: { level: number; msg: string; objects?: unknown; leader?: string }[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  await using rig = await openRig({ log });
  const logged = () => lines.filter(({ msg }) => msg.startsWith('The leader'));
  await rig.rest();
  const unit = rig.repo.begin();
  const mounts = [{ volume_id: id('one'), path: '/data', read_only: false }];
  unit.create('volume', id('one'), desiredState('volume'));
  unit.create('volume', id('two'), desiredState('volume'));
  unit.create('application', id('mounting'), desiredState('application', { mounts }));
  unit.create('application', id('plain'), desiredState('application'));
  await commit(unit);
  await rig.clock.advance(limits.leader.retryMs);
  expect(logged()).toEqual([]);
  expect(await rig.metric('setpoint_unattended_objects')).toBe(0);
  const taken = { put: keys.leader('controllers'), value: JSON.stringify({ replica: 'other' }) };
  await rig.store.txn({ if: [], then: [{ put: keys.replica('other'), value: JSON.stringify(first) }, taken] });
  await rig.clock.advance(3 * limits.leader.retryMs);
  expect(logged()).toMatchObject([{ level: 40, objects: { volume: 2, application: 1 }, leader: first.url }]);
  expect(await rig.metric('setpoint_unattended_objects', { kind: 'volume' })).toBe(2);
  expect(await rig.metric('setpoint_unattended_objects', { kind: 'application' })).toBe(1);
  const gone = [keys.replica('other'), keys.leader('controllers')].map((key) => ({ delete: key }));
  await rig.store.txn({ if: [], then: gone });
  await rig.clock.advance(limits.leader.retryMs);
  expect(rig.controllers.isLeader).toBe(true);
  expect(logged()).toMatchObject([{ level: 40 }, { level: 30 }]);
  expect(await rig.metric('setpoint_unattended_objects')).toBe(0);
});
