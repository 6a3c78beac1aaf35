/** Durations of protocol 1 in milliseconds, and its bounds. Both ends use them; the welcome tells `beat_ms`. */
export const timing = {
  beatMs: 5000,
  /** Nothing heard for so many beats: the other end is gone. */
  missedBeats: 3,
  /** From the open socket to the welcome. */
  handshakeMs: 20_000,
  /** A report or a change of the desired set that is not acknowledged for so long ends the connection. */
  answerMs: 60_000,
  /** One report may be sent per so many milliseconds in the long run … */
  reportEveryMs: 250,
  /** … but that many at once after a quiet period, so that a start is told step by step. */
  reportBurst: 4,
  /** A report that could not be stored is sent again after so long. */
  reportRetryMs: 1000,
  /** A reader that opens a stream hears of it within so long. */
  acceptMs: 10_000,
  /** Between two exchanges of live streams. */
  liveMs: 30_000,
} as const;

export const bounds = {
  /** Frames are handed to the socket while it holds fewer bytes. */
  gateBytes: 1024 * 1024,
  /** Messages waiting for the gate: beyond it the other end is too slow to be served. */
  outboxBytes: 64 * 1024 * 1024,
  streams: 64,
  /** Bytes that the reading end of a connection holds at most for all of its streams. */
  streamBytes: 4 * 1024 * 1024,
  /** Credit of a new stream, while the connection has room for it … */
  windowBytes: 256 * 1024,
  /** … and what it gets in any case. */
  smallWindowBytes: 32 * 1024,
  /** Calls under way on one agent. */
  calls: 32,
  /** Aim for the size of one frame of a snapshot, delta or report. */
  batchBytes: 256 * 1024,
  reportItems: 500,
  /** The answer of a call, encoded: fits a frame. */
  resultBytes: 1000 * 1024,
  /** Items of one snapshot. */
  snapshotItems: 20_000,
  /** Messages of an agent within one window of 10 s. */
  messagesPer10s: 2000,
} as const;
