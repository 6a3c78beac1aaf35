import { systemClock } from '../clock.ts';
import type { Clock } from '../clock.ts';
import type { Store } from '../store.ts';
import { Endpoints } from './endpoints.ts';
import type { EtcdTls } from './endpoints.ts';
import { EtcdStore } from './etcd-store.ts';
import { History } from './history.ts';

/** `hosts` are the members of one cluster as `HOST:PORT`. The clock drives the leases. */
export interface EtcdOptions {
  hosts: readonly string[];
  tls?: EtcdTls;
  clock?: Clock;
}

/** Connects to a cluster. @throws Unavailable if no member answers. */
export async function openEtcd({ hosts, tls, clock = systemClock }: EtcdOptions): Promise<Store & AsyncDisposable> {
  if (hosts.length === 0) throw new RangeError('A cluster has at least one host: got none');
  const endpoints = new Endpoints(hosts, tls);
  const history = new History(endpoints);
  try {
    await history.open();
  } catch (error) {
    endpoints.close();
    throw error;
  }
  return new EtcdStore(endpoints, history, clock);
}
