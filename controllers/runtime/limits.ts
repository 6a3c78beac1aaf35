import { retention } from '../../store/retention.ts';

const second = 1000;
const minute = 60 * second;

/** Every default of the controllers, tested in test/controllers/limits. Durations in milliseconds. */
export const limits = {
  leader: {
    /** Lease of the leader key; the store renews it. */
    ttlMs: 10 * second,
    /** A candidate tries again within this time after the key vanished, so that candidates do not try at once. */
    jitterMs: 300,
    /** A candidate tries again after this time if its attempt failed, for example as the store did not answer. */
    failureMs: 5 * second,
    /** A candidate looks at the key at least this often, even if no change of it was seen. */
    retryMs: 10 * second,
  },
  reconcile: {
    deadlineMs: minute,
    /** A run that ignores its aborted signal for this long is reported as stuck and loses its place in the pool. */
    graceMs: 5 * second,
    backoffFirstMs: 200,
    backoffMaxMs: 5 * minute,
    /** Conflicts in a row that are tried again at once; more of them back off like errors. */
    conflictsAtOnce: 3,
    /** Shortest delay of `again` for a run that wrote nothing. */
    againMinMs: 50,
    resyncMs: 10 * minute,
    /** Share of `resyncMs` by which a resync varies in both directions. */
    resyncJitter: 0.2,
  },
  queue: {
    /** Runs at once of one controller, unless it declares another number. */
    concurrency: 8,
    /** Runs at once of all controllers together. */
    total: 72,
    /** Runs on one place in the pool before the event loop and the other controllers get their turn. */
    slice: 32,
    /** Time on one place in the pool after which no further run is begun. */
    sliceMs: 10,
    /** Priority of the first pass and of the resync: a restart with 10 000 objects does not delay a user. */
    backgroundPriority: -100,
    /** Runs of one object at once, before `everyMs` bounds them. A rollout needs fewer, an endless change needs more. */
    burst: 20,
    /** Time between two runs of an object that had its burst. */
    everyMs: 100,
  },
  since: {
    /** Conditions of one object whose duration is kept: a backup asks for 20, of its uploads and their attempts. */
    names: 32,
  },
  /** Changes remembered to see whether an awaited object changed during the run that waits for it. */
  recentChanges: 1024,
  events: {
    /** Time between two writes of one reason of one object. */
    intervalMs: 10 * second,
    /** Objects with events that are not written yet. */
    objects: 2000,
    /** Reasons per object within one interval. */
    reasons: 20,
    attempts: 3,
  },
  notifications: {
    perUser: retention.notificationsPerUser,
    keepMs: retention.notificationsKeepMs,
    /** Keys of sent notifications that are remembered, so that a resync does not look them up again. */
    remembered: 5000,
  },
  garbage: {
    concurrency: 4,
    sweepMs: 10 * minute,
    /** A wall clock that is further ahead of all that is stored is reported: it may be wrong. */
    aheadMs: 24 * 60 * minute,
    deploymentsPerApplication: retention.deploymentsPerApplication,
    operationsKeepMs: retention.operationsKeepMs,
    healingsKeepMs: retention.healingsKeepMs,
    operationsPerApplication: retention.operationsPerApplication,
    sessionsPerUser: retention.sessionsPerUser,
    loginCodesKeepMs: retention.loginCodesKeepMs,
    knownPlacesKeepMs: retention.knownPlacesKeepMs,
    expiredKeysKeepMs: retention.expiredKeysKeepMs,
    invitesKeepMs: retention.invitesKeepMs,
    /** Time between two searches for orphaned keys. */
    orphanSweepMs: 60 * minute,
    /** A key is removed only after it has been an orphan for this long. */
    orphanAgeMs: 60 * minute,
    /** Orphans under observation. */
    orphans: 10_000,
    pageSize: 500,
  },
  operations: {
    /** Longest run of an operation; below the deadline of a reconcile. */
    runMs: 45 * second,
    /** Operations that are carried out at once: half of them of one tenant at most, a third of one project. */
    atOnce: 32,
    /** Attempts of provisioning among them: machines that hang leave the others to operations that users wait for. */
    provisionings: 8,
  },
  buckets: {
    /** Runs at once of each controller that asks buckets: half of them of one tenant at most, a third of one destination. */
    atOnce: 12,
  },
  clone: {
    /** Guards and writes of one transaction for its copies; two more are the clone's own. */
    operations: 60,
    /** Bytes of the states that one transaction copies, unless it copies a single object; keys are not counted. */
    bytes: 800 * 1024,
    /** Copies removed by one transaction. */
    removals: 8,
  },
  invites: {
    /** Attempts to mail one invite in one term; a mail that cannot be handed over by then needs an operator. */
    attempts: 12,
    firstPauseMs: 10 * second,
    maxPauseMs: 60 * minute,
    /** Longest time to hand over one mail, attempts of the mailer included; below the deadline of a reconcile. */
    sendMs: 50 * second,
    /** Tokens in memory that are to be mailed. One that is forgotten is replaced by a new one. */
    tokens: 20_000,
    /** Good tokens of one invite: a mail may have arrived although it seemed lost. */
    goodTokens: 3,
  },
  compaction: {
    everyMs: minute,
    keepRevisions: 10_000,
    keepMs: 10 * minute,
    /** Size of the keys and values in the history; older history beyond this is forgotten, however young it is. */
    keepBytes: 256 * 1024 * 1024,
    /** History of a small store, as a share of its size and room together. */
    keepShare: 0.2,
  },
  mail: {
    /** Connections to the mail server. */
    atOnce: 2,
    /** Mails that may wait; one more is dropped. */
    waiting: 500,
    /** Longest time of one attempt. */
    deadlineMs: 30 * second,
    attempts: 3,
    /** Time before the second attempt; before the third it is twice as long. */
    pauseMs: 5 * second,
    /** Longest time for the mails that still wait when the replica closes. */
    drainMs: 5 * second,
  },
  tenants: {
    /** Time between two passes over a tenant that is being deleted. */
    everyMs: second,
    /** After this time a server whose agent is connected but does not finish counts as one whose agent is away. */
    agentPatienceMs: 10 * minute,
    /** After this time buckets that did not let backups be removed keep what they have of the tenant. */
    bucketPatienceMs: 24 * 60 * minute,
  },
  audit: {
    /** Time from the first record that waits until all that wait by then are chained. */
    gatherMs: second,
    /** Time until the next attempt after a failure. */
    failureMs: 5 * second,
    /** Time between two passes over every tenant, for records that were missed and those that are old enough to go. */
    sweepMs: 5 * minute,
    pageSize: 500,
    /** Records that one pass takes into memory, the oldest first. */
    atOnce: 5000,
    /** Records of one transaction: each is a put and a deletion, beside three guards and the head. */
    perTransaction: 30,
    /** Bytes of the records of one transaction. */
    transactionBytes: 700 * 1024,
    forgottenPerTransaction: 60,
  },
  rotation: {
    everyMs: 10 * minute,
    signingKeysEveryMs: 60 * minute,
    pageSize: 200,
    /** Time between two writes, so that a rotation does not crowd out users. */
    paceMs: 20,
  },
} as const;
