import { z } from 'zod';
import { defineKind } from './define.ts';
import { Id, Sealed, Timestamp } from './fields.ts';

export const GlobalRole = z.enum(['superadmin', 'admin', 'user']);
export type GlobalRole = z.infer<typeof GlobalRole>;

export const user = defineKind({
  kind: 'user',
  version: 1,
  desired: z.object({
    /** As given; unique case-folded. */
    email: z.string(),
    first_name: z.string().default(''),
    last_name: z.string().default(''),
    role: GlobalRole,
    /** PHC string of argon2id; absent for an account without password. */
    password_hash: z.string().optional(),
    must_reset_password: z.boolean().default(false),
    two_factor_enabled: z.boolean().default(false),
    /** What an authenticator application shows codes of; asked for only once `two_factor_enabled` says so. */
    two_factor: z
      .object({
        secret: Sealed,
        begun_at: Timestamp,
        /** Step of the last code that was accepted: neither it nor an earlier one is accepted again. */
        last_step: z.int().default(0),
        /** Keyed hashes of the recovery codes that are left. */
        recovery: z.array(z.string()).max(10).default([]),
      })
      .optional(),
    disabled: z.boolean().default(false),
  }),
  observed: z.object({}),
  unique: (d) => [{ scope: 'all', name: d.email }],
});

/** A login. A token is good only while its session lives. */
export const session = defineKind({
  kind: 'session',
  version: 1,
  desired: z.object({
    user_id: Id,
    expires_at: Timestamp,
    source: z.string().default(''),
    user_agent: z.string().default(''),
  }),
  observed: z.object({}),
  owners: (d) => [{ kind: 'user', id: d.user_id, blocks: true }],
  indexes: { user: (d) => d.user_id },
});

/**
 * The last one-time code for an address. There is one for an address of nobody, too, so that strangers cannot tell the
 * two apart by what is kept of their requests.
 */
export const loginCode = defineKind({
  kind: 'login_code',
  version: 1,
  desired: z.object({
    email: z.string(),
    /** Keyed hash; absent once the code was used or guessed at too often. */
    hash: z.string().optional(),
    expires_at: Timestamp,
    /** How often it was guessed at. */
    failures: z.int().default(0),
    /** When codes were sent in the last hour, oldest first. */
    sent_at: z.array(Timestamp),
  }),
  observed: z.object({}),
});

export const KeyScope = z.enum(['read', 'deploy', 'write', 'admin']);
export type KeyScope = z.infer<typeof KeyScope>;

export const serviceKey = defineKind({
  kind: 'service_key',
  version: 1,
  desired: z.object({
    user_id: Id,
    name: z.string(),
    /** First characters of the key, for recognition. */
    prefix: z.string(),
    /** SHA-256 of the whole key, hex. */
    hash: z.string(),
    scopes: z.array(KeyScope).optional(),
    project_id: Id.optional(),
    expires_at: Timestamp.optional(),
  }),
  /** Written by the interface, at most once in ten minutes. */
  observed: z.object({ last_used_at: Timestamp.optional() }),
  unique: (d) => [{ scope: 'hash', name: d.hash }],
  owners: (d) => [{ kind: 'user', id: d.user_id, blocks: true }],
  indexes: { user: (d) => d.user_id, hash: (d) => d.hash },
});
