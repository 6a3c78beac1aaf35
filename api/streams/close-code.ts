/** Close codes of streams. */
export const closeCode = {
  ended: 1000,
  restart: 1012,
  tooSlow: 1013,
  /** Try again later: something that the stream needs does not answer. */
  away: 1013,
  internal: 1011,
  malformed: 1007,
  credential: 4401,
  permission: 4403,
  gone: 4404,
  used: 4409,
  tooMany: 4429,
} as const;
export type CloseCode = (typeof closeCode)[keyof typeof closeCode];
