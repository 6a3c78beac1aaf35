import type { RequestHandler } from 'express';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { createClientAddress } from '../api/http/client-address.ts';
import { ApiConfig, defaultSigningKeyLifeMs } from '../api/ground/config.ts';
import { rotateSigningKeys } from '../api/auth/signing-keys.ts';
import type { SetupToken } from '../api/auth/setup-token.ts';
import type { Random } from '../api/ground/random.ts';
import { createApi } from '../api/server.ts';
import type { Api } from '../api/server.ts';
import { audit } from '../controllers/audit/audit.ts';
import { compaction } from '../controllers/compaction/compaction.ts';
import { garbage } from '../controllers/garbage/garbage.ts';
import { clusterKey } from '../controllers/gateway/cluster-key.ts';
import { ensureControlKeys, rotateControlKeys } from '../controllers/gateway/control-keys.ts';
import type { BackupBucket } from '../controllers/backup/bucket.ts';
import { s3Bucket } from '../controllers/backup/s3-bucket.ts';
import { Gateway } from '../controllers/gateway/gateway.ts';
import type { DialReplica } from '../controllers/gateway/relay-client.ts';
import { beginEra } from '../controllers/gateway/history.ts';
import { deliverToLog, Mailer } from '../controllers/mail/mailer.ts';
import { deliverBySmtp } from '../controllers/mail/smtp.ts';
import type { SmtpServer } from '../controllers/mail/smtp.ts';
import { keyRotation } from '../controllers/key-rotation/key-rotation.ts';
import { releaseMark } from '../controllers/release-mark/release-mark.ts';
import { polling } from '../controllers/polling/polling.ts';
import { webhookRefusals } from '../controllers/webhook-refusals/refusals.ts';
import type { Controllers } from '../controllers/runtime/manager.ts';
import { startControllers } from '../controllers/runtime/manager.ts';
import { tenantDeletion } from '../controllers/tenant/deletion.ts';
import { signingKeyRotation } from '../controllers/signing-keys/signing-keys.ts';
import type { Clock } from '../time/clock.ts';
import { Machines } from '../controllers/ssh/machines.ts';
import { networks } from '../network/address.ts';
import { probeBucket } from '../network/bucket-probe.ts';
import { searchBucket } from '../network/bucket-search.ts';
import { logInToRegistry } from '../network/registry-login.ts';
import type { Mirror } from '../store/mirror.ts';
import { startMirror } from '../store/store-mirror.ts';
import { openRepository } from '../store/repo.ts';
import type { Repository } from '../store/repo.ts';
import type { Resealer, SealComparer, Sealer, Transplanter, Unsealer } from '../store/seal.ts';
import { storeMetrics } from '../store/store-metrics.ts';
import { otherLeader } from '../store/replicas.ts';
import type { Replica } from '../store/replicas.ts';
import type { Store } from '../store/store.ts';
import { refuseLater } from '../store/release-mark.ts';
import { refoldNames } from '../store/refold-names.ts';
import { controllersOf } from './controllers.ts';
import { forMachines } from './for-machines.ts';
import { createUpgrades } from './upgrades.ts';

export interface ReplicaOptions {
  store: Store;
  keyring: Sealer & Unsealer & SealComparer & Resealer & Transplanter;
  clock: Clock;
  random: Random;
  /** Returns numbers uniform in [0, 1). */
  uniform: () => number;
  log: Logger;
  registry: Registry;
  replica: Replica;
  dialReplica?: DialReplica;
  /** Probes buckets; absent: the real ones. */
  probeBucket?: typeof probeBucket;
  bucket?: BackupBucket;
  /** URL under which users and agents reach this installation. */
  publicUrl: string;
  /** Whether agents on other machines may reach it without TLS. */
  allowPlainHttp?: boolean;
  trustedProxies: string[];
  /** See `ApiConfig`. */
  allowedHosts?: ApiConfig['allowedHosts'];
  metricsFrom?: ApiConfig['metricsFrom'];
  agentRelease?: ApiConfig['agentRelease'];
  /** Networks of the control plane's own machine to which it may log in by SSH. */
  sshNetworks?: readonly string[];
  /** Ports of the control plane itself: no application of any server may take them. */
  ownPorts: number[];
  /** Mail server and sender; without it mail is only logged. */
  mail?: { server: SmtpServer; from: string };
  /** Age after which the key that signs tokens is replaced. Default: 90 days. */
  signingKeyLifeMs?: number;
  /** The image of the proxies of servers; absent: the usual one. */
  ingressImage?: string;
  /** The image of poolers of databases; absent: the usual one. */
  poolerImage?: string;
  /** See `ApiConfig`. */
  engineImages?: ApiConfig['engineImages'];
  runtimeImages?: ApiConfig['runtimeImages'];
  /** See `ApiConfig`. */
  wildcardDomain?: ApiConfig['wildcardDomain'];
  buildDeadlineMs: number;
  auditKeepMs: number;
  rolloutDeadlineMs: number;
  /** Answers requests that are for no tenant and not for the API's own pages. */
  pages?: (mirror: Mirror) => RequestHandler;
  /** Limits of the API that differ from the defaults. */
  limits?: Partial<Pick<ApiConfig, 'rateLimit' | 'heavyRateLimit' | 'codeRateLimit' | 'streamsPerUser'>>;
  /** See `ApiConfig`. */
  setupToken?: ApiConfig['setupToken'];
  /** Freezes the objects of the mirror, and fails a run that breaks a law of the status: for development and tests. */
  strict: boolean;
}

/** Moves names that an earlier release stored in another compared form, before the first request looks them up. */
async function moveNames(store: Store, log: Logger): Promise<void> {
  const { moved, clashes } = await refoldNames(store);
  if (moved > 0) log.info({ moved }, 'Names were rewritten to the form in which this release compares them');
  for (const clash of clashes)
    log.warn(clash, 'Two objects have names that this release regards as the same: both stay, rename one of them');
}

/** Most audit records of a tenant, each about 1 KiB. */
const auditRecordsPerTenant = 100_000;

/** Longest time for which a mirror that missed a change stays wrong. */
const mirrorCheckMs = 5 * 60_000;

/** A replica of the control plane whose server does not listen yet. */
export interface RunningReplica extends AsyncDisposable {
  readonly mirror: Mirror;
  readonly gateway: Gateway;
  readonly server: Api['server'];
  readonly controllers: Controllers;
  /** What the first user of a tenant must present. */
  readonly setupToken: SetupToken;
}

/**
 * Builds a replica: mirror, gateway, API and controllers, in the order of their dependencies. Disposing stops them in
 * the reverse order: agents and clients are disconnected in order, and the leadership is handed over.
 *
 * @throws Error for a store on which a later release has led
 */
export async function startReplica(options: ReplicaOptions): Promise<RunningReplica> {
  await using starting = new AsyncDisposableStack();
  const { store, keyring, clock, random, uniform, log, registry, replica, strict } = options;
  await refuseLater(store);
  const mirror = starting.use(
    startMirror({
      store,
      clock,
      random: uniform,
      log,
      registry,
      seals: keyring,
      freeze: strict,
      checkEveryMs: mirrorCheckMs,
    }),
  );
  storeMetrics(registry, store);
  const repositoryFor = repositories(store, clock);
  const mailer = starting.use(openMailer(options));
  await ensureControlKeys({ store, sealer: keyring, clock });
  await moveNames(store, log);
  await beginEra(store, replica.id);
  const gateway = starting.use(
    new Gateway({
      store,
      mirror,
      repositoryFor,
      unsealer: keyring,
      signer: s3Bucket,
      clock,
      random: uniform,
      log: log.child({ part: 'gateway' }),
      registry,
      driftCorrected: (kind) => controllers.metrics.driftCorrected.inc({ kind }),
      replica,
      ownPorts: options.ownPorts,
      clusterKey: await clusterKey(store, keyring, keyring),
      dialReplica: options.dialReplica,
    }),
  );
  const api = starting.use(
    await createApi({
      store,
      mirror,
      repositoryFor,
      otherLeader: () => otherLeader(mirror, replica.id),
      sealer: keyring,
      unsealer: keyring,
      agents: gateway,
      mailer,
      registryLogin: logInToRegistry,
      probeBucket: options.probeBucket ?? probeBucket,
      searchBucket,
      clock,
      random,
      log: log.child({ part: 'api' }),
      registry,
      config: ApiConfig.parse({
        version: replica.version,
        publicUrl: options.publicUrl,
        allowPlainHttp: options.allowPlainHttp,
        trustedProxies: options.trustedProxies,
        allowedHosts: options.allowedHosts,
        metricsFrom: options.metricsFrom,
        setupToken: options.setupToken,
        agentRelease: options.agentRelease,
        signingKeyLifeMs: options.signingKeyLifeMs,
        ownPorts: options.ownPorts,
        engineImages: options.engineImages,
        runtimeImages: options.runtimeImages,
        wildcardDomain: options.wildcardDomain,
        buildDeadlineMs: options.buildDeadlineMs,
        ...options.limits,
      }),
      ...(options.pages !== undefined && { pages: options.pages(mirror) }),
    }),
  );
  const offer = forMachines({ ...options, releases: api.releases, controlKey: () => gateway.controlKey() });
  const controllers: Controllers = starting.use(
    startControllers({
      store,
      mirror,
      clock,
      random: uniform,
      log: log.child({ part: 'controllers' }),
      registry,
      replica: replica.id,
      controllers: controllersOf({
        ...options,
        probeBucket: options.probeBucket ?? probeBucket,
        bucket: options.bucket ?? s3Bucket,
        agents: gateway,
        machines: new Machines({ clock, unsealer: keyring, isAllowed: networks(options.sshNetworks ?? []) }),
        installation: offer,
        applyCommit: api.applyCommit,
        mailer,
        isMailOnlyLogged: options.mail === undefined,
        agentRelease: () => offer.releasedVersion(),
      }),
      background: [
        garbage,
        compaction,
        releaseMark(replica.version),
        keyRotation(keyring),
        signingKeys(options),
        tenantDeletion,
        polling(gateway),
        webhookRefusals,
        audit({ keepMs: options.auditKeepMs, maxRecords: auditRecordsPerTenant }),
      ],
      strict,
    }),
  );
  api.server.on(
    'upgrade',
    createUpgrades({ mirror, gateway, addressOf: createClientAddress(options.trustedProxies), api }),
  );
  const running = starting.move();
  return {
    mirror,
    gateway,
    server: api.server,
    setupToken: api.setupToken,
    controllers,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

function signingKeys({ store, keyring, clock, random, signingKeyLifeMs = defaultSigningKeyLifeMs }: ReplicaOptions) {
  const deps = { store, sealer: keyring, clock, random };
  return signingKeyRotation(async (fence) => {
    const due = { olderThanMs: signingKeyLifeMs, guards: [fence] };
    await rotateControlKeys(deps, due);
    return rotateSigningKeys(deps, due);
  });
}

function openMailer({ mail, clock, random, log, registry }: ReplicaOptions): Mailer {
  const mailLog = log.child({ part: 'mail' });
  if (mail === undefined)
    log.warn('No mail server is set (--smtp-url): mail is only logged, with its codes to log in and links of invites');
  const delivery = mail === undefined ? deliverToLog(mailLog) : deliverBySmtp(mail.server, mail.from);
  return new Mailer({ delivery, clock, id: () => random.id(), log: mailLog, registry });
}

/** Makes one repository per tenant: a repository has no state but its tenant. */
function repositories(store: Store, clock: Clock): (tenant: string) => Repository {
  const known = new Map<string, Repository>();
  return (tenant) => {
    const repository = known.get(tenant) ?? openRepository(store, tenant, clock);
    known.set(tenant, repository);
    return repository;
  };
}
