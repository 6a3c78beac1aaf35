import { afterAll, beforeAll } from 'vitest';
import { keepStoresIn } from './api-store.ts';
import { startEtcd } from './etcd.ts';
import type { EtcdServer } from './etcd.ts';

let server: EtcdServer;

beforeAll(async () => {
  server = await startEtcd();
  keepStoresIn(server);
});
afterAll(async () => {
  keepStoresIn(undefined);
  await server[Symbol.asyncDispose]();
});
