import { isLoopbackHost } from '../../agent-protocol/control-plane-url.ts';
import type { CheckResult, CheckStatus } from '../../agent-protocol/diagnosis.ts';
import { compactedTo } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { directoryOf } from '../../store/replicas.ts';
import { revision } from '../../store/revision.ts';
import type { StoreHealth } from '../../store/store.ts';
import { listSigningKeys } from '../auth/signing-keys.ts';
import type { RequestContext } from '../endpoint/context.ts';

/** Bounds of what is good. Durations in milliseconds. */
const bounds = {
  /** A write and a read of the store. */
  slow: { warn: 200, fail: 2000 },
  /** Share of the quota of etcd. */
  quota: { warn: 0.75, fail: 0.95 },
  /** Free bytes of the disk of the embedded store. */
  disk: { warn: 2 * 1024 ** 3, fail: 256 * 1024 ** 2 },
  /** Log of the embedded store that is not in its file yet. */
  log: 256 * 1024 ** 2,
  /** Revisions of history that are kept. */
  history: 2_000_000,
  /** The mirror shows a write after this time. */
  mirror: { warn: 500, fail: 3000 },
  /** Records of the store that were written later than now. */
  future: 10_000,
} as const;

/** What is known of the installation. */
export interface SystemFacts {
  /** `undefined`: the store does not answer. */
  store: StoreHealth | undefined;
  /** Revisions of history that the store keeps; `undefined`: not known. */
  history: number | undefined;
  /** Time until the mirror of this replica showed the newest write; `undefined`: not within `bounds.mirror.fail`. */
  mirrorMs: number | undefined;
  replicas: readonly { id: string; version: string; url?: string }[];
  leader: string | undefined;
  /** When the newest key that signs tokens was made. */
  signingKeyAt: string | undefined;
  /** Age at which the leader replaces it. */
  signingKeyLifeMs: number;
  version: string;
  now: Date;
}

/** Asks what is to be known of the installation. Bounded by the deadlines of the store, and some seconds more. */
export async function systemFacts(
  ctx: Pick<RequestContext, 'store' | 'mirror' | 'clock' | 'config' | 'signal'>,
): Promise<SystemFacts> {
  const { mirror, clock, config } = ctx;
  const store = await ctx.store.health().catch(() => undefined);
  const begun = clock.monotonic();
  const [history, signing, isShown] = await Promise.all([
    store === undefined ? undefined : historyOf(ctx.store, store.revision),
    listSigningKeys(ctx.store).catch(() => []),
    store === undefined
      ? false
      : mirror
          .reached(store.revision, AbortSignal.any([ctx.signal(), AbortSignal.timeout(bounds.mirror.fail)]))
          .then(() => true)
          .catch(() => false), // the signal aborted
  ]);
  return {
    store,
    history,
    mirrorMs: isShown ? clock.monotonic() - begun : undefined,
    ...directoryOf(mirror),
    signingKeyAt: signing.at(-1)?.created_at,
    signingKeyLifeMs: config.signingKeyLifeMs,
    version: config.version,
    now: clock.now(),
  };
}

/** The revisions that the store keeps: it answers a question below them with the revision where they begin. */
async function historyOf(store: Pick<RequestContext['store'], 'list'>, now: number): Promise<number | undefined> {
  try {
    await store.list({ prefix: keys.meta('barrier') }, { limit: 1, at: revision(1) });
    return now;
  } catch (error) {
    const begins = compactedTo(error);
    return begins === undefined ? undefined : now - begins;
  }
}

/** Judges the facts. Pure. */
export function judgeSystem(facts: SystemFacts): CheckResult[] {
  const { store } = facts;
  if (store === undefined)
    return [
      result('store', 'fail', 'The store does not answer', 'Look at etcd, or at the disk of the data directory'),
      ...directoryChecks(facts),
    ];
  return [
    latencyCheck(store),
    ...(store.backend === 'etcd' ? etcdChecks(store) : sqliteChecks(store)),
    historyCheck(facts),
    mirrorCheck(facts),
    ...directoryChecks(facts),
  ];
}

function latencyCheck({ backend, writeMs, readMs }: StoreHealth): CheckResult {
  const message = `The store is ${backend}: a write took ${Math.round(writeMs)} ms, a read ${Math.round(readMs)} ms`;
  const status = rated(Math.max(writeMs, readMs), bounds.slow);
  return result('store', status, message, 'Give the store a faster disk, and etcd a network without loss');
}

function etcdChecks({ members, alarms, quotaBytes }: Extract<StoreHealth, { backend: 'etcd' }>): CheckResult[] {
  const answers = members.flatMap(({ status }) => status ?? []);
  const silent = members.filter(({ status }) => status === undefined).map(({ name }) => name);
  const versions = [...new Set(answers.map(({ version }) => version))];
  const share = Math.max(0, ...answers.map(({ bytes }) => bytes)) / quotaBytes;
  const used = `The largest member has ${Math.round(share * 100)} % of ${Math.round(quotaBytes / 1024 ** 2)} MiB`;
  return [
    silent.length > 0
      ? result(
          'store_members',
          silent.length * 2 >= members.length ? 'fail' : 'warn',
          `Of ${members.length} members of etcd these do not answer: ${silent.slice(0, 9).join(', ')}`,
          'Start them, or name them in --store: a member that is not named there is not asked',
        )
      : members.length % 2 === 0
        ? result(
            'store_members',
            'warn',
            `etcd has ${members.length} members: it stands no more failures than with one less`,
            'Have an odd number of members, three or five',
          )
        : result('store_members', 'pass', `All ${members.length} members of etcd answer`),
    result(
      'store_leader',
      answers.some(({ isLeader }) => isLeader) || silent.length > 0 ? 'pass' : 'fail',
      answers.some(({ isLeader }) => isLeader) ? 'etcd has a leader' : 'No member that answers leads etcd',
      'Look at the logs of etcd: a majority of its members must reach each other',
    ),
    result(
      'store_version',
      versions.length > 1 ? 'warn' : 'pass',
      `The members have version ${versions.join(', ')}`,
      'Upgrade all members to one release',
    ),
    result(
      'store_alarms',
      alarms.length > 0 ? 'fail' : 'pass',
      alarms.length > 0 ? `etcd raised ${alarms.join(', ')}` : 'etcd raised no alarm',
      'NOSPACE: see "A store that is full". CORRUPT: replace the member that differs from the others',
    ),
    result('store_size', rated(share, bounds.quota), used, 'See "A store that is full" in docs/operations.md'),
  ];
}

function sqliteChecks(store: Extract<StoreHealth, { backend: 'sqlite' }>): CheckResult[] {
  const { bytes, logBytes, freeBytes, fault } = store;
  const inMiB = (size: number): string => `${Math.round(size / 1024 ** 2)} MiB`;
  const disk =
    freeBytes === undefined || freeBytes >= bounds.disk.warn ? 'pass' : freeBytes < bounds.disk.fail ? 'fail' : 'warn';
  const isSound = fault === 'none' || fault === 'unchecked';
  return [
    result('store_size', 'pass', `The file has ${inMiB(bytes)}`),
    result(
      'store_disk',
      disk,
      freeBytes === undefined ? 'The store is in memory' : `Its disk has ${inMiB(freeBytes)} left`,
      'Free space on the disk of the data directory: writes are refused when it is full',
    ),
    result(
      'store_log',
      logBytes > bounds.log ? 'warn' : 'pass',
      `${inMiB(logBytes)} of writes are not in the file yet`,
      'Look for a program that keeps the file open for reading, such as a backup that hangs',
    ),
    result(
      'store_integrity',
      isSound ? 'pass' : 'fail',
      fault === 'none' ? 'The file is sound' : fault === 'unchecked' ? 'The file is not looked into' : fault,
      'Stop the control plane and restore a backup of the file: docs/operations.md, "What must be kept"',
    ),
  ];
}

function historyCheck({ history }: SystemFacts): CheckResult {
  if (history === undefined)
    return result('store_history', 'warn', 'It is not known how much history is kept', 'Examine again');
  return result(
    'store_history',
    history > bounds.history ? 'warn' : 'pass',
    `${history} revisions of history are kept`,
    'Compaction is behind: look at the log of the leader, and at how much is written',
  );
}

function mirrorCheck({ mirrorMs }: SystemFacts): CheckResult {
  const remedy =
    'Look at setpoint_mirror_lag_revisions of this replica and at its processor; restart it if it stays so';
  if (mirrorMs === undefined)
    return result('mirror', 'fail', 'The mirror of this replica does not follow the store', remedy);
  const message = `The mirror of this replica showed the newest write after ${Math.round(mirrorMs)} ms`;
  return result('mirror', rated(mirrorMs, bounds.mirror), message, remedy);
}

function directoryChecks({
  replicas,
  leader,
  signingKeyAt,
  signingKeyLifeMs,
  version,
  now,
}: SystemFacts): CheckResult[] {
  const versions = [...new Set(replicas.map((it) => it.version))];
  const isLed = leader !== undefined;
  const age = signingKeyAt === undefined ? undefined : now.getTime() - Date.parse(signingKeyAt);
  return [
    result(
      'leader',
      isLed && replicas.some(({ id }) => id === leader) ? 'pass' : isLed ? 'warn' : 'fail',
      !isLed
        ? 'No replica leads the controllers: nothing is reconciled'
        : replicas.some(({ id }) => id === leader)
          ? 'A replica leads the controllers'
          : 'The replica that leads the controllers is not in the directory',
      'A leader is found within half a minute; if it stays so, look at the logs of the replicas',
    ),
    addressCheck(replicas),
    result(
      'replicas',
      replicas.length === 0 || versions.some((one) => one !== version) ? 'warn' : 'pass',
      `${replicas.length} replicas, of version ${versions.join(', ')}`,
      'Upgrade all replicas to one release; one that is missing does not reach the store',
    ),
    result(
      'signing_keys',
      age === undefined || age > 2 * signingKeyLifeMs ? 'warn' : 'pass',
      age === undefined
        ? 'The age of the key that signs tokens is not known'
        : `The key that signs tokens is ${Math.max(0, Math.floor(age / 86_400_000))} days old`,
      'The leader replaces it by age (--signing-key-days); setpoint keys rotate does so now',
    ),
    result(
      'clock',
      age !== undefined && age < -bounds.future ? 'fail' : 'pass',
      age !== undefined && age < -bounds.future
        ? 'The clock of this replica is behind the one that wrote the newest key'
        : 'The clock of this replica contradicts nothing that the store holds',
      'Let all replicas follow a time server: timedatectl set-ntp true',
    ),
  ];
}

/** Replicas reach each other, unless two have one address, or one has an address that only its own machine reaches. */
function addressCheck(replicas: SystemFacts['replicas']): CheckResult {
  const urls = replicas.flatMap(({ url }) => (url !== undefined && URL.canParse(url) ? new URL(url) : []));
  const twice = urls.find(({ href }, at) => urls.findIndex((other) => other.href === href) < at);
  const own = urls.filter(({ hostname }) => isLoopbackHost(hostname));
  const [first] = own;
  const remedy =
    'Give each replica the address under which the others reach it: --internal-url. One that was killed counts for half a minute more';
  if (twice !== undefined)
    return result('replica_addresses', 'fail', `Two replicas are to be reached at ${twice.origin}`, remedy);
  if (first !== undefined && own.length < urls.length)
    return result('replica_addresses', 'fail', `Only its own machine reaches the replica at ${first.origin}`, remedy);
  return result('replica_addresses', 'pass', 'Each replica has an address of its own');
}

function rated(value: number, { warn, fail }: { warn: number; fail: number }): CheckStatus {
  if (value >= fail) return 'fail';
  return value >= warn ? 'warn' : 'pass';
}

function result(name: string, status: CheckStatus, message: string, remedy = ''): CheckResult {
  const remediation = status === 'pass' ? null : remedy;
  return { name, status, message: message.slice(0, 1000), remediation, auto_fixable: false };
}
