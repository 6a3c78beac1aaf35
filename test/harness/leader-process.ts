/**
 * A process of its own that runs for a leadership and, when told a key, writes it under the fence of its first term.
 * Usage: fork(file, [host of etcd, name of the leadership])
 */
import { pino } from 'pino';
import { systemClock } from '../../time/clock.ts';
import { openEtcd } from '../../store/etcd/open.ts';
import { startMirror } from '../../store/store-mirror.ts';
import { startCandidate } from './candidate.ts';

/** What it says. */
export type LeaderMessage = { leading: number } | { committed: boolean } | { failed: string };

const [host = '', name = ''] = process.argv.slice(2);
const send = (message: LeaderMessage): void => void process.send?.(message);

const clock = systemClock;
const store = await openEtcd({ hosts: [host] });
const mirror = startMirror({ store, clock, log: pino({ level: 'silent' }) });
const term = await startCandidate({ store, mirror, clock }, { name, replica: 'process' }).term(0);
process.on('message', (key: string) => {
  store.txn({ if: [term.fence], then: [{ put: key, value: 'late' }] }).then(
    ({ committed }) => send({ committed }),
    (error: unknown) => send({ failed: String(error) }),
  );
});
process.once('disconnect', () => process.exit());
send({ leading: term.epoch });
