import { isIP } from 'node:net';
import { systemClock } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { Store } from '../store.ts';
import { Endpoints } from './endpoints.ts';
import type { EtcdAccess } from './endpoints.ts';
import { EtcdStore } from './etcd-store.ts';
import { History } from './history.ts';

/** `hosts` are the members of one cluster as `HOST:PORT`. The clock drives the leases. */
export interface EtcdOptions extends EtcdAccess {
  hosts: readonly string[];
  clock?: Clock;
  /** The members' `--quota-backend-bytes`, which etcd does not report. Default: etcd's default, 2 GiB. */
  quotaBytes?: number;
}

/** Connects to a cluster. @throws Unavailable if no member answers or accepts the login. */
export async function openEtcd({
  hosts,
  clock = systemClock,
  quotaBytes = 2 * 1024 ** 3,
  ...access
}: EtcdOptions): Promise<Store & AsyncDisposable> {
  if (hosts.length === 0) throw new RangeError('A cluster has at least one host: got none');
  const unnamed = hosts.find((host) => isIP(host.replace(/:\d+$/, '').replaceAll(/[[\]]/g, '')) !== 0);
  // the client sends the host as the server's name, which TLS does not allow for an IP address
  if (access.tls !== undefined && unnamed !== undefined)
    throw new RangeError(`Hosts are named as in their certificates, not by address, over TLS: got ${unnamed}`);
  const endpoints = new Endpoints(hosts, access);
  const history = new History(endpoints);
  try {
    await history.open();
  } catch (error) {
    endpoints.close();
    throw error;
  }
  return new EtcdStore(endpoints, history, clock, quotaBytes);
}
