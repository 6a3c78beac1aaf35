import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Unsealer } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';
import type { ControlKeys } from './control-keys.ts';
import type { AddressSigner } from './transfers.ts';
import type { GatewayMetrics } from './metrics.ts';

/** What the sessions of a replica share. */
export interface SessionDeps {
  store: Store;
  mirror: Mirror;
  unsealer: Unsealer;
  /** Signs addresses for tasks that send or fetch bytes. */
  signer: AddressSigner;
  controlKeys: ControlKeys;
  clock: Clock;
  log: Logger;
  metrics: GatewayMetrics;
  /** Called for a deviation that an agent corrected, with the kind of the workload. */
  driftCorrected: (kind: string) => void;
  replica: string;
  /** Ports on which the control plane is reached. */
  ownPorts: readonly number[];
}
