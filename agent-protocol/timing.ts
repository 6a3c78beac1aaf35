/** Durations of protocol 1, in milliseconds. Both ends use them; the agent takes `beat_ms` from the welcome. */
export const timing = {
  beatMs: 5000,
  /** After this number of beats without a frame, the other end is considered gone. */
  missedBeats: 3,
  /** Longest time from the open socket to the welcome. */
  handshakeMs: 20_000,
  /** The connection ends if a report or a change of the desired set is not acknowledged within this time. */
  answerMs: 60_000,
  /** In the long run, one report may be sent per this time … */
  reportEveryMs: 250,
  /** … but this number at once after a quiet period, so that each step of a start is reported. */
  reportBurst: 4,
  /** A report that could not be stored is sent again after this time. */
  reportRetryMs: 1000,
  /** The agent must accept or refuse a stream within this time. */
  acceptMs: 10_000,
  /** The control plane answers a question of an agent within this time. */
  askMs: 10_000,
  /** Time between two exchanges of live streams. */
  liveMs: 30_000,
} as const;

/** Bounds of protocol 1. */
export const bounds = {
  /** Frames are passed to the socket while it holds at most this number of bytes. */
  gateBytes: 1024 * 1024,
  /** Most bytes of messages that wait for the socket. Beyond it the other end is too slow, and the session ends. */
  outboxBytes: 64 * 1024 * 1024,
  streams: 64,
  /** Most bytes that the reading end of a connection holds for all of its streams. */
  streamBytes: 4 * 1024 * 1024,
  /** Credit of a new stream, while the connection has room for it … */
  windowBytes: 256 * 1024,
  /** … and its credit in any case. */
  smallWindowBytes: 32 * 1024,
  /** Most open calls on one agent. */
  calls: 32,
  /** Target size of one frame of a snapshot, delta or report. */
  batchBytes: 256 * 1024,
  reportItems: 500,
  /** Largest encoded result of a call: it fits into a frame. */
  resultBytes: 1000 * 1024,
  /** Most items of one snapshot. */
  snapshotItems: 20_000,
  /** Most frames that go before all others and wait for the socket, which are beats and their answers. */
  urgentFrames: 64,
  /** Most bytes of messages from an agent before its welcome; a hello has at most 16 KiB. */
  openingBytes: 64 * 1024,
  /**
   * Most messages of an agent within one window of 10 s. Pings count, and so do frames that carry no granted byte; answers
   * to what the control plane asked do not, or its users could have the session ended.
   */
  messagesPer10s: 2000,
} as const;
