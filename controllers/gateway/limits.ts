/** Every default of the gateway in one place. Durations in milliseconds. */
export const limits = {
  admission: {
    /**
     * Agents that showed a pass: places of connections that are not welcomed yet, and handshakes per second, for all
     * agents and for each server. After a quiet second, the handshakes of one second may begin at once. A thousand
     * agents are back within half a minute.
     */
    known: { places: 1000, placesEach: 2, perSecond: 40, perSecondEach: 5 },
    /** All others, such as agents that join and agents of earlier releases; for all together and for each address. */
    strangers: { places: 200, placesEach: 20, perSecond: 40, perSecondEach: 20 },
    /** Servers whose pace is remembered, and as many addresses. */
    names: 10_000,
    /** Longest time for which a connection is sent away. */
    maxWaitMs: 60_000,
    /** A connection that sends no hello within this time is ended … */
    helloMs: 2000,
    /** … and so is one that does not answer the challenge within this time. */
    proofMs: 5000,
  },
  session: {
    leaseMs: 30_000,
    /** Attempts to write the live key while other sessions of the same server write it. */
    attempts: 5,
    /** Times within a minute that a session may take its key again, as it does when its engine's state changes. */
    retakes: 30,
    /** Time between two attempts to get a lost lease back while the store is away. */
    reclaimMs: 1000,
    /** The mirror must show the session's own key before the first snapshot. */
    catchUpMs: 10_000,
  },
  conflict: {
    /** This many sessions of different agents that replaced each other … */
    takeovers: 3,
    /** … within this time mean that one agent is a copy of the other. */
    withinMs: 5 * 60_000,
  },
  refusal: { unknownMs: 5 * 60_000, unauthorizedMs: 60_000, busyMs: 5000, supersededMs: 30_000 },
  desired: {
    debounceMs: 25,
    /** A delta with more items is sent as a snapshot. */
    deltaItems: 200,
    /** An agent that keeps asking for snapshots waits at most this long for the next one. */
    snapshotMaxWaitMs: 60_000,
  },
  hold: {
    /** The first complete report must arrive within this time; without it nothing is removed. */
    reportMs: 20_000,
  },
  intake: {
    /**
     * Reports of one server that are taken per second, over all of its sessions: twice what the protocol allows an agent
     * (`timing.reportEveryMs`). More of them wait.
     */
    reportsPerSecond: 8,
    /** Objects per transaction: a release takes four operations, the fence one. */
    perTransaction: 15,
    retryMs: 1000,
    attempts: 3,
  },
  bytes: {
    /**
     * Bytes that are read of one agent per second, over all of its sessions. The most that terminals and logs of one
     * agent were measured to pass is 40 MB (docs/performance.md).
     */
    perSecond: 128 * 1024 * 1024,
    /** Bytes that are read at once after a quiet period. */
    burst: 128 * 1024 * 1024,
    /** A byte of a message counts as so many, as it is parsed; those of streams are only passed on. */
    messageWeight: 8,
    /** What each frame counts beside its bytes. */
    frameBytes: 64,
    /** Time between two log lines about one connection that is slowed down. */
    logMs: 60_000,
  },
  relay: {
    connectMs: 5000,
    /** Replicas asked in a row when the agent moves. */
    hops: 3,
    jitterMs: 200,
    /** Relayed calls and streams that this replica serves for others. */
    connections: 1000,
    /** Most of these that are streams, so that calls find a place. */
    streams: 900,
    /**
     * Places of connections that neither showed a pass nor proved their request yet, for all together and for each
     * address: those of replicas of earlier releases, and of strangers.
     */
    strangers: { places: 400, placesEach: 100 },
    /** Largest difference between the clocks of two replicas with which a pass is good. */
    passMs: 5 * 60_000,
  },
  drain: {
    /** Agents come back spread over this time per agent, so that they do not all come at once. */
    perAgentMs: 50,
    minMs: 1000,
    maxMs: 60_000,
  },
} as const;
