import { z } from 'zod';
import { defineKind } from './define.ts';
import { Id, Timestamp } from './fields.ts';

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
