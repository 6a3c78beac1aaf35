import { createHash } from 'node:crypto';

/** Where the folder of the proxy is in its container. */
export const inside = '/setpoint';

/** The sockets of `run/`: the administration of the proxy, and the agent for the names of instances. */
export const sockets = { admin: 'admin.sock', names: 'names.sock' } as const;

/** The file of the certificates of an authority's own server. Others are another file, so that the proxy reads them anew. */
export function authorityFile(pem: string): string {
  return `authority-${createHash('sha256').update(pem).digest('hex').slice(0, 16)}.pem`;
}

/** The logs of the proxy: each is a file and some that were rolled, in JSON by line. */
export const logForms = {
  /** A line for each request once it is over. */
  access: { megabytes: 16, rolled: 2 },
  /** Why certificates could not be had. */
  tls: { megabytes: 1, rolled: 1 },
} as const;
export type LogName = keyof typeof logForms;
