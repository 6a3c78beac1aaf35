import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import packageFile from '../package.json' with { type: 'json' };
import { createClusterPages } from '../api/pages/cluster-pages.ts';
import { systemRandom } from '../api/ground/random.ts';
import { rotateControlKeys } from '../controllers/gateway/control-keys.ts';
import type { Controllers } from '../controllers/runtime/manager.ts';
import { systemClock } from '../time/clock.ts';
import type { Mirror } from '../store/mirror.ts';
import { defined } from '../store/defined.ts';
import { openStore, storeFile } from '../store/open.ts';
import { otherLeader } from '../store/replicas.ts';
import { openKeyring } from '../store/seal.ts';
import type { Store } from '../store/store.ts';
import { writeAdminFile } from './admin-file.ts';
import { ensureDataDir } from './data-dir.ts';
import { readEtcdAccess } from './etcd-access.ts';
import { startReplica } from './replica.ts';
import type { RunningReplica } from './replica.ts';
import type { ServerConfig } from './server-config.ts';

/** A running control plane: one replica. */
export interface ControlPlane extends AsyncDisposable {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly controllers: Controllers;
  /** The URL that it listens on. */
  readonly url: string;
}

/**
 * Starts a replica with the store and the keys of this machine, and listens. Disposing stops it in order.
 *
 * @throws Error if the store is not available, the keys do not fit it, or the address is taken.
 */
export async function startControlPlane(config: ServerConfig, log: Logger): Promise<ControlPlane> {
  await using starting = new AsyncDisposableStack();
  await ensureDataDir(config.data);
  const clock = systemClock;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const { etcdQuotaBytes: quotaBytes } = config;
  const access = await readEtcdAccess(config);
  const store = starting.use(await openStore(config.store, { ...access, ...defined({ quotaBytes }) }));
  const token = randomBytes(32).toString('base64url');
  const keyring = await openKeyring({
    path: join(config.data, 'keys.json'),
    store,
    onFault: (err) => log.error({ err }, 'The key file has changed and cannot be read: goes on with the keys before'),
  });
  const id = randomUUID();
  const replica: RunningReplica = starting.use(
    await startReplica({
      store,
      keyring,
      clock,
      random: systemRandom,
      uniform: Math.random,
      log,
      registry,
      replica: { id, url: config.internalUrl, version: packageFile.version },
      publicUrl: config.publicUrl,
      allowPlainHttp: config.allowPlainHttp,
      trustedProxies: config.trustedProxies,
      allowedHosts: config.allowedHosts,
      ...(config.metricsFrom !== undefined && { metricsFrom: config.metricsFrom }),
      agentRelease: config.agentRelease,
      sshNetworks: config.sshNetworks,
      ownPorts: ownPorts(config),
      ...(config.mail !== undefined && { mail: config.mail }),
      auditKeepMs: config.auditRetentionDays * 24 * 3_600_000,
      signingKeyLifeMs: config.signingKeyDays * 86_400_000,
      ...(config.ingressImage !== undefined && { ingressImage: config.ingressImage }),
      ...(config.poolerImage !== undefined && { poolerImage: config.poolerImage }),
      ...(config.engineImages !== undefined && { engineImages: config.engineImages }),
      ...(config.runtimeImages !== undefined && { runtimeImages: config.runtimeImages }),
      ...(config.wildcardDomain !== undefined && { wildcardDomain: config.wildcardDomain }),
      buildDeadlineMs: config.buildDeadlineSeconds * 1000,
      rolloutDeadlineMs: config.rolloutDeadlineSeconds * 1000,
      pages: (seen) =>
        createClusterPages({
          store,
          mirror: seen,
          otherLeader: () => otherLeader(seen, id),
          clock,
          random: systemRandom,
          sealer: keyring,
          token,
          storeFile: storeFile(config.store),
          publicUrl: config.publicUrl,
          setupToken: (name) => replica.setupToken(name),
          rotateControlKeys: () => rotateControlKeys({ store, sealer: keyring, clock }),
        }),
      setupToken: config.setupToken,
      limits: {
        rateLimit: config.rateLimit,
        heavyRateLimit: config.heavyRateLimit,
        codeRateLimit: config.codeRateLimit,
        streamsPerUser: config.streamsPerUser,
      },
      strict: false,
    }),
  );
  const { mirror, controllers, server } = replica;
  server.listen(config.listen.port, config.listen.host);
  await once(server, 'listening').catch((error: unknown) => {
    const { host, port } = config.listen;
    const reason =
      error instanceof Error && 'code' in error && error.code === 'EADDRINUSE' ? 'another program does' : error;
    throw new Error(`Cannot listen on ${host}:${port}: ${String(reason)}. Choose another with --listen`, {
      cause: error,
    });
  });
  const address = server.address() as AddressInfo; // a TCP server has such an address
  const url = `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
  await writeAdminFile(config.data, { url, token });
  const setupToken = replica.setupToken('default');
  if (setupToken !== undefined && mirror.tenant('default').list('user').length === 0)
    log.warn({ setupToken }, 'There is no user yet: the first one registers with this setup_token');
  const running = starting.move();
  return {
    store,
    mirror,
    controllers,
    url,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** The ports on which this replica listens and is reached. */
function ownPorts({ listen, publicUrl, internalUrl }: ServerConfig): number[] {
  const named = [publicUrl, internalUrl]
    .map((url) => new URL(url))
    .map(({ port, protocol }) => Number(port) || usual(protocol));
  return [...new Set([listen.port, ...named])].filter((port) => port > 0);
}

function usual(protocol: string): number {
  return protocol === 'https:' ? 443 : 80;
}
