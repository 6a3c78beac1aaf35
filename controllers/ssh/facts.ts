import { z } from 'zod';
import { said, saidChars } from './said.ts';

const Whole = z.coerce.number().int().min(0).optional().catch(undefined);
const Text = z
  .string()
  .transform((text) => said(text, saidChars.fact))
  .optional();

/** What {@link lookScript} found. A fact is absent if the machine does not tell it. */
export const Facts = z.object({
  os: Text,
  os_like: Text,
  os_version: Text,
  os_name: Text,
  kernel: Text,
  /** Known of a C library that is not glibc. */
  libc: z.literal('musl').optional().catch(undefined),
  /** As `uname -m` names it. */
  machine: Text,
  root: z.literal('yes').optional().catch(undefined),
  /** `refuses`: it asks, and does not take the password of the login. `fails`: it does not run anything, for another reason. */
  sudo: z.enum(['missing', 'free', 'asks', 'refuses', 'fails']).optional().catch(undefined),
  /** Why sudo ran nothing. */
  sudo_says: Text,
  init: z.enum(['systemd', 'other']).catch('other'),
  packages: Text,
  /** Seconds since 1970. */
  clock: Whole,
  disk_free_kib: Whole,
  inodes_free: Whole,
  memory_kib: Whole,
  git: Text,
  iptables: z.literal('yes').optional().catch(undefined),
  /** `curl` or `wget`. */
  fetch: z.literal('yes').optional().catch(undefined),
  /** The server that an agent on the machine has joined as. */
  agent_server: Text,
  /** That agent removes itself now, as its server was deleted. */
  agent_leaves: z.literal('yes').optional().catch(undefined),
  docker: Text,
  docker_client: Text,
  docker_socket: z.literal('yes').optional().catch(undefined),
  port_80: z.enum(['free', 'taken']).optional().catch(undefined),
  port_443: z.enum(['free', 'taken']).optional().catch(undefined),
});
export type Facts = z.infer<typeof Facts>;

/** Reads the lines `NAME=VALUE`. What a machine says beside them, such as a greeting, is passed over. */
export function parseFacts(output: string): Facts {
  const found = new Map<string, string>();
  for (const line of output.split('\n')) {
    const at = line.indexOf('=');
    const name = line.slice(0, at);
    if (at > 0 && Object.hasOwn(Facts.shape, name)) found.set(name, line.slice(at + 1).trim());
  }
  return Facts.parse(Object.fromEntries(found));
}
