import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { AnyController } from '../../controllers/runtime/graph.ts';
import { startControllers } from '../../controllers/runtime/manager.ts';
import { keys } from '../../store/keys.ts';
import { announcementOf } from '../../store/replicas.ts';
import type { ApiWorld } from './api.ts';
import type { Clock } from '../../time/clock.ts';

const replica = 'one';

/** A leader of this release beside an API under test, which runs these controllers alone. */
export async function lead(
  { store, mirror }: Pick<ApiWorld, 'store' | 'mirror'>,
  clock: Clock,
  ...controllers: readonly AnyController[]
): Promise<AsyncDisposable> {
  const announced = announcementOf({ id: replica, url: 'http://127.0.0.1:1', version: '0' });
  await store.txn({ if: [], then: [{ put: keys.replica(replica), value: announced }] });
  return startControllers({
    store,
    mirror,
    clock,
    log: pino({ level: 'silent' }),
    registry: new Registry(),
    replica,
    random: () => 0,
    controllers,
    background: [],
    strict: true,
    kinds: [],
  });
}
