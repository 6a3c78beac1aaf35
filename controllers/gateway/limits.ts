/** Every default of the gateway in one place. Durations in milliseconds. */
export const limits = {
  admission: {
    /** Handshakes per second, and at once after a quiet second: a thousand agents are back within half a minute. */
    perSecond: 40,
    /** Nobody is sent away for longer. */
    maxWaitMs: 60_000,
    /** Sockets that are not welcomed yet. */
    pending: 200,
  },
  session: {
    leaseMs: 30_000,
    /** Tries to write the live key against other sessions of the same server. */
    attempts: 5,
    /** Between two tries to get a lost lease back while the store is away. */
    reclaimMs: 1000,
    /** The mirror must show the session's own key before the first snapshot. */
    catchUpMs: 10_000,
  },
  conflict: {
    /** So many sessions of different machines that replaced each other … */
    takeovers: 3,
    /** … within this time mean that one machine is a copy of the other. */
    withinMs: 5 * 60_000,
  },
  refusal: { unknownMs: 5 * 60_000, unauthorizedMs: 60_000, busyMs: 5000, supersededMs: 30_000 },
  desired: {
    debounceMs: 25,
    /** A delta with more items is sent as a snapshot. */
    deltaItems: 200,
    /** An agent that keeps asking for snapshots waits at most so long for the next one. */
    snapshotMaxWaitMs: 60_000,
  },
  hold: {
    /** Share of a server's assignments that a rewound store may remove without a confirmation. */
    share: 0.5,
    /** The first complete report must come within so long; without it no removal is made. */
    reportMs: 20_000,
  },
  intake: {
    /** Objects per transaction: a release takes four operations, the fence one. */
    perTransaction: 15,
    retryMs: 1000,
    attempts: 3,
  },
  relay: {
    connectMs: 5000,
    /** Replicas asked in a row when the agent moves. */
    hops: 3,
    jitterMs: 200,
    /** Relayed calls and streams that this replica serves for others. */
    connections: 1000,
  },
  drain: {
    /** Agents come back within this time per agent, so that they do not all come at once. */
    perAgentMs: 50,
    minMs: 1000,
    maxMs: 60_000,
  },
} as const;
