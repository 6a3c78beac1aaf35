/** A text frame or a binary one. */
export type Frame = string | Uint8Array;

/** One end of a connection as a session sees it. Frames go out here and come in by the session's `receive`. */
export interface Wire {
  /** Bytes handed over and not yet written out. The owner of the wire calls the session's `drained` when it falls. */
  readonly buffered: number;
  send(frame: Frame): void;
  /** Idempotent. The peer sees the code and the reason (at most 120 bytes). */
  close(code: number, reason: string): void;
}

/** Close codes of RFC 6455 that the protocol uses. */
export const closeCodes = { normal: 1000, goingAway: 1001, protocol: 1002, policy: 1008, failed: 1011 } as const;
