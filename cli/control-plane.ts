import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import packageFile from '../package.json' with { type: 'json' };
import { ApiConfig } from '../api/config.ts';
import { systemRandom } from '../api/random.ts';
import { createClusterPages } from '../api/cluster-pages.ts';
import { createApi } from '../api/server.ts';
import { applicationController } from '../controllers/application/reconcile.ts';
import { deploymentController } from '../controllers/deployment/reconcile.ts';
import { environmentController } from '../controllers/environment/reconcile.ts';
import { compaction } from '../controllers/compaction/compaction.ts';
import { garbage } from '../controllers/garbage/garbage.ts';
import { clusterKey } from '../controllers/gateway/cluster-key.ts';
import { Gateway } from '../controllers/gateway/gateway.ts';
import { keyRotation } from '../controllers/key-rotation/key-rotation.ts';
import type { AgentCalls } from '../controllers/operation/reconcile.ts';
import { operationController } from '../controllers/operation/reconcile.ts';
import { projectController } from '../controllers/project/reconcile.ts';
import type { AnyController } from '../controllers/runtime/graph.ts';
import type { Controllers } from '../controllers/runtime/manager.ts';
import { startControllers } from '../controllers/runtime/manager.ts';
import { serverController } from '../controllers/server/reconcile.ts';
import { systemClock } from '../store/clock.ts';
import type { Mirror } from '../store/mirror.ts';
import { startMirror } from '../store/mirror.ts';
import { openStore } from '../store/open.ts';
import { openRepository } from '../store/repo.ts';
import type { Repository } from '../store/repo.ts';
import { openKeyring } from '../store/seal.ts';
import type { Store } from '../store/store.ts';
import { writeAdminFile } from './admin-file.ts';
import type { ServerConfig } from './server-config.ts';
import { createUpgrades } from './upgrades.ts';

/** A running control plane: one replica. */
export interface ControlPlane extends AsyncDisposable {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly controllers: Controllers;
  /** Address that it listens on. */
  readonly url: string;
}

/**
 * Starts a replica: store, keys, mirror, gateway, API, controllers, in the order in which they need each other.
 * Disposing ends them in the reverse order: agents and clients are sent away in order, the leadership is handed over.
 *
 * @throws Error if the store is not to be had, the keys do not fit it, or the address is taken.
 */
export async function startControlPlane(config: ServerConfig, log: Logger): Promise<ControlPlane> {
  await using starting = new AsyncDisposableStack();
  await mkdir(config.data, { recursive: true, mode: 0o700 });
  const clock = systemClock;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });

  const store = starting.use(await openStore(config.store));
  const keyring = await openKeyring({ path: join(config.data, 'keys.json'), store });
  const mirror = starting.use(startMirror({ store, clock, log, registry, freeze: false }));
  const repositoryFor = repositories(store);
  const adminToken = randomBytes(32).toString('base64url');
  const replica = { id: randomUUID(), url: config.internalUrl, version: packageFile.version };

  const gateway = starting.use(
    new Gateway({
      store,
      mirror,
      repositoryFor,
      unsealer: keyring,
      clock,
      log: log.child({ part: 'gateway' }),
      registry,
      driftCorrected: (kind) => controllers.metrics.driftCorrected.inc({ kind }),
      replica,
      clusterKey: await clusterKey(store, keyring, keyring),
    }),
  );
  const api = starting.use(
    await createApi({
      store,
      mirror,
      repositoryFor,
      sealer: keyring,
      unsealer: keyring,
      agents: gateway,
      pages: createClusterPages({ store, mirror, clock, token: adminToken }),
      clock,
      random: systemRandom,
      log: log.child({ part: 'api' }),
      registry,
      config: ApiConfig.parse({
        version: packageFile.version,
        publicUrl: config.publicUrl,
        trustedProxies: config.trustedProxies,
      }),
    }),
  );
  const controllers: Controllers = starting.use(
    startControllers({
      store,
      mirror,
      clock,
      random: Math.random,
      log: log.child({ part: 'controllers' }),
      registry,
      replica: replica.id,
      controllers: controllersOf(config, gateway),
      background: [garbage, compaction, keyRotation(keyring)],
      strict: false,
    }),
  );
  const sockets = createUpgrades({ mirror, gateway, api });
  api.server.on('upgrade', sockets);
  api.server.listen(config.listen.port, config.listen.host);
  await once(api.server, 'listening');
  const address = api.server.address() as AddressInfo; // a TCP server has such an address
  const url = `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
  await writeAdminFile(config.data, { url, token: adminToken });
  const running = starting.move();
  return {
    store,
    mirror,
    controllers,
    url,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** Repositories are made once per tenant: they hold no state but their place. */
function repositories(store: Store): (tenant: string) => Repository {
  const known = new Map<string, Repository>();
  return (tenant) => {
    const repository = known.get(tenant) ?? openRepository(store, tenant, systemClock);
    known.set(tenant, repository);
    return repository;
  };
}

function controllersOf(config: ServerConfig, agents: AgentCalls): AnyController[] {
  return [
    projectController,
    environmentController,
    serverController({ offlineAfterMs: 25_000 }),
    applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: config.rolloutDeadlineSeconds * 1000 }),
    deploymentController({
      queueDeadlineMs: 24 * 3_600_000,
      buildDeadlineMs: config.buildDeadlineSeconds * 1000,
      rolloutDeadlineMs: config.rolloutDeadlineSeconds * 1000,
    }),
    operationController(agents),
  ];
}
