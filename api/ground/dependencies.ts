import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { OtherLeader } from '../../store/replicas.ts';
import type { Repository } from '../../store/repo.ts';
import type { SealComparer, Sealer, Unsealer } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';
import type { Agents } from './agents.ts';
import type { ProbeBucket, SearchBucket } from './bucket-probe.ts';
import type { ApiConfig } from './config.ts';
import type { Mailer } from './mailer.ts';
import type { Random } from './random.ts';
import type { LogIn } from './registry-login.ts';

/** What the program that starts the API gives to it. */
export interface ApiDependencies {
  store: Store;
  mirror: Mirror;
  repositoryFor(tenant: string): Repository;
  /** The leader, if it does not know all that this release does; from memory. */
  otherLeader: () => OtherLeader | undefined;
  sealer: Sealer & SealComparer;
  unsealer: Unsealer;
  agents: Agents;
  mailer: Mailer;
  registryLogin: LogIn;
  probeBucket: ProbeBucket;
  searchBucket: SearchBucket;
  clock: Clock;
  random: Random;
  log: Logger;
  registry: Registry;
  config: ApiConfig;
}

/** Where a request came from. */
export interface RequestInfo {
  id: string;
  /**
   * Address of the client, an IPv6 one as its /64; behind trusted proxies the first address that is not one of theirs.
   */
  address: string;
  userAgent: string;
  /** The request has an `Idempotency-Key`, so the client itself distinguishes a retry from a new request. */
  isKeyed: boolean;
}
