import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { AnyObject, ReadonlyResource } from '../../store/resource.ts';
import type { Store } from '../../store/store.ts';
import type { EventInput, NotificationInput } from './controller.ts';
import type { ControllerMetrics } from './metrics.ts';

/** What the loops of all controllers share. */
export interface LoopDeps {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly pool: PQueue;
  readonly metrics: ControllerMetrics;
  readonly concurrency: number;
  /** A verdict that breaks a law of the status fails its run; otherwise it is logged and counted. */
  readonly strict: boolean;
  readonly repository: (tenant: string) => Repository;
  /** See `expiryTime`: the time by which objects expire. */
  readonly expiryTime: () => number;
  readonly event: (of: AnyObject, event: EventInput) => void;
  /** @param notification with the log of the run that sends it */
  readonly notify: (
    of: ReadonlyResource,
    key: string,
    notification: NotificationInput & { log: Logger },
  ) => Promise<void>;
}
