const second = 1000;
const minute = 60 * second;

/** Every default of the controllers in one place. Durations in milliseconds. */
export const limits = {
  leader: {
    /** Lease of the leader key; the store renews it. */
    ttlMs: 10 * second,
    /** A candidate tries again within this time after the key vanished, so that candidates do not try at once. */
    jitterMs: 300,
    /** The same after the store did not answer. */
    failureMs: 5 * second,
    /** A candidate looks at the key at least this often, even if no change of it was seen. */
    retryMs: 10 * second,
  },
  reconcile: {
    deadlineMs: minute,
    /** A run that ignores its aborted signal for so long is reported as stuck and loses its place in the pool. */
    graceMs: 5 * second,
    backoffFirstMs: 200,
    backoffMaxMs: 5 * minute,
    /** Conflicts in a row that are tried again at once; more of them back off like errors. */
    conflictsAtOnce: 3,
    /** `again` is never sooner. */
    againMinMs: 50,
    resyncMs: 10 * minute,
    /** Share of `resyncMs` by which a resync varies in both directions. */
    resyncJitter: 0.2,
  },
  queue: {
    /** Runs at once of one controller. */
    concurrency: 8,
    /** Runs at once of all controllers together. */
    total: 64,
    /** Runs of one place in the pool before the event loop and the other controllers get their turn. */
    slice: 32,
    /** The same in time: no further run is begun. */
    sliceMs: 10,
    /** Priority of the first pass and of the resync: a restart with 10 000 objects does not delay a user. */
    backgroundPriority: -100,
  },
  /** Changes remembered to see whether an awaited object changed during the run that waits for it. */
  recentChanges: 1024,
  events: {
    /** Between two writes of one reason of one object. */
    intervalMs: 10 * second,
    /** Objects with events that are not written yet. */
    objects: 2000,
    /** Reasons per object within one interval. */
    reasons: 20,
    attempts: 3,
  },
  notifications: {
    perUser: 200,
    keepMs: 30 * 24 * 60 * minute,
    /** Keys remembered as told, so that a resync does not look them up again. */
    remembered: 5000,
  },
  garbage: {
    concurrency: 4,
    sweepMs: 10 * minute,
    deploymentsPerApplication: 20,
    operationsKeepMs: 24 * 60 * minute,
    /** Ended ones of one application. */
    operationsPerApplication: 20,
    /** Logins that one user may have open; the oldest goes. */
    sessionsPerUser: 100,
    /** After the last code for an address: by then it says nothing about how many more may be sent or guessed. */
    loginCodesKeepMs: 24 * 60 * minute,
    /** The same, where places of the owner are kept with it. */
    knownPlacesKeepMs: 30 * 24 * 60 * minute,
    /** After its expiry a service key is still listed, so that its owner sees what stopped working. */
    expiredKeysKeepMs: 7 * 24 * 60 * minute,
    /** After its end an invite still tells whoever comes late what became of it. */
    invitesKeepMs: 7 * 24 * 60 * minute,
    /** Between two searches for orphaned keys. */
    orphanSweepMs: 60 * minute,
    /** A key must have been an orphan for so long. */
    orphanAgeMs: 60 * minute,
    /** Orphans under observation. */
    orphans: 10_000,
    pageSize: 500,
  },
  clone: {
    /** Guards and writes of one transaction for what it copies; a few more are the clone's own. */
    operations: 56,
    /** Bytes of the states that one transaction copies, unless it is a single one; their keys come to them. */
    bytes: 800 * 1024,
    /** Copies removed by one transaction. */
    removals: 8,
  },
  invites: {
    /** Of one invite in one term; a mail that cannot be handed over by then needs a look by somebody. */
    attempts: 12,
    firstPauseMs: 10 * second,
    maxPauseMs: 60 * minute,
    /** For handing over one mail, with what the mailer tries by itself; below the deadline of a reconcile. */
    sendMs: 50 * second,
    /** Tokens that are to be mailed. One that is forgotten is replaced by a new one. */
    tokens: 20_000,
    /** Tokens of one invite that are good: a mail may have arrived although it seemed lost. */
    goodTokens: 3,
  },
  compaction: {
    everyMs: minute,
    keepRevisions: 10_000,
    keepMs: 10 * minute,
    /** Of keys and values that were written; more than this is forgotten however young it is. */
    keepBytes: 256 * 1024 * 1024,
    /** The same as a share of what the store takes and may still take, for a small one. */
    keepShare: 0.2,
  },
  mail: {
    /** Connections to the mail server. */
    atOnce: 2,
    /** Mails that wait; one more is dropped. */
    waiting: 500,
    /** Of one attempt. */
    deadlineMs: 30 * second,
    attempts: 3,
    /** Before the second attempt; before the third it is twice as long. */
    pauseMs: 5 * second,
    /** For what still waits when the replica closes. */
    drainMs: 5 * second,
  },
  tenants: {
    /** Between two looks at a tenant that is being deleted. */
    everyMs: second,
    /** After that time a server whose agent is connected, and does not finish, counts as one whose agent is away. */
    agentPatienceMs: 10 * minute,
  },
  audit: {
    /** From the first record that waits to the chaining of all that wait by then. */
    gatherMs: second,
    /** The same after a failure. */
    failureMs: 5 * second,
    /** Between two looks at every tenant: for what was not heard of, and for what is old enough to go. */
    sweepMs: 5 * minute,
    pageSize: 500,
    /** Records that one look takes into memory, the oldest first. */
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
    /** Between two writes, so that a rotation does not crowd out users. */
    paceMs: 20,
  },
} as const;
