import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id, Sealed, Timestamp } from './fields.ts';

export const GlobalRole = z.enum(['superadmin', 'admin', 'user']);
export type GlobalRole = z.infer<typeof GlobalRole>;

/** The place of an event, which is the address of a client (IPv6 by /64), and its time. */
export const AtPlace = z.object({ source: z.string(), at: Timestamp });
export type AtPlace = z.infer<typeof AtPlace>;

export const user = defineKind({
  kind: 'user',
  version: 1,
  /** Only the API acts on it. */
  ignorable: true,
  desired: z.object({
    /** The address as it was given; unique case-folded. */
    email: z.string(),
    first_name: z.string().default(''),
    last_name: z.string().default(''),
    role: GlobalRole,
    /** PHC string of argon2id; absent for an account without password. */
    password_hash: z.string().optional(),
    must_reset_password: z.boolean().default(false),
    two_factor_enabled: z.boolean().default(false),
    /** Second factor of an authenticator application; a login requires its codes only if `two_factor_enabled`. */
    two_factor: z
      .object({
        secret: Sealed,
        begun_at: Timestamp,
        /** Step of the last code that was accepted: neither it nor an earlier one is accepted again. */
        last_step: z.int().default(0),
        /** Keyed hashes of the recovery codes that are left. */
        recovery: z.array(z.string()).max(10).default([]),
        /** Wrong codes at logins within a day, oldest first. */
        failed: z.array(AtPlace).default([]),
        /** Places at which it was proven, each with the last time. */
        known: z.array(AtPlace).default([]),
      })
      .optional(),
    disabled: z.boolean().default(false),
    /** Projects in which a plain user who came by an invite to a project may have rights; absent: all. */
    confined_to: z.array(Id).max(100).optional(),
  }),
  observed: z.object({}),
  unique: (d) => [{ scope: 'all', name: d.email }],
  keep: { untilDeleted: 'An administrator deletes it' },
});

/** A login. A token is valid only while its session exists. */
export const session = defineKind({
  kind: 'session',
  version: 1,
  /** Only the API acts on it. */
  ignorable: true,
  desired: z.object({
    user_id: Id,
    expires_at: Timestamp,
    source: z.string().default(''),
    user_agent: z.string().default(''),
  }),
  observed: z.object({}),
  owners: (d) => [{ kind: 'user', id: d.user_id, blocks: true }],
  indexes: { user: (d) => d.user_id },
  keep: {
    newest: { count: retention.sessionsPerUser, under: 'user' },
    until: ({ desired }) => Date.parse(desired.expires_at),
  },
});

/**
 * The one-time codes for an address, and the counts of their use. An address without an account has one, too, so that
 * strangers cannot distinguish the two by the records of their requests. Requests and guesses of each place are counted
 * apart, so that strangers do not take away the codes of the owner.
 */
export const loginCode = defineKind({
  kind: 'login_code',
  version: 2,
  /** Only the API acts on it. */
  ignorable: true,
  desired: z.object({
    email: z.string(),
    /** Codes that are not used up: one for each place that asked. */
    codes: z
      .array(
        z.object({
          source: z.string(),
          /** Keyed hash. */
          hash: z.string(),
          expires_at: Timestamp,
          /** Wrong guesses at the place that asked for it, and at others. */
          failures: z.int().default(0),
          failures_elsewhere: z.int().default(0),
        }),
      )
      .default([]),
    /** Codes that were sent within a day, oldest first. */
    sent: z.array(AtPlace).default([]),
    /** Wrong guesses within a day, oldest first. */
    failed: z.array(AtPlace).default([]),
    /** Places at which a code was right, each with the last time. */
    known: z.array(AtPlace).default([]),
  }),
  observed: z.object({}),
  keep: {
    until: ({ meta, desired: { sent, known } }) =>
      Date.parse(sent.at(-1)?.at ?? meta.updatedAt) +
      (known.length > 0 ? retention.knownPlacesKeepMs : retention.loginCodesKeepMs),
  },
  upgrade: {
    1: ({ email, hash, expires_at, failures, sent_at }) => ({
      email,
      codes: typeof hash === 'string' ? [{ source: '', hash, expires_at, failures_elsewhere: failures }] : [],
      sent: Array.isArray(sent_at) ? sent_at.map((at: unknown) => ({ source: '', at })) : [],
    }),
  },
});

export const KeyScope = z.enum(['read', 'deploy', 'write', 'admin']);
export type KeyScope = z.infer<typeof KeyScope>;

export const serviceKey = defineKind({
  kind: 'service_key',
  version: 1,
  /** Only the API acts on it. */
  ignorable: true,
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
    /** The key that created this one; this one is valid no longer than it. */
    parent_id: Id.optional(),
  }),
  /** Written by the API, at most once in ten minutes. */
  observed: z.object({ last_used_at: Timestamp.optional() }),
  unique: (d) => [{ scope: 'hash', name: d.hash }],
  owners: (d) => [
    { kind: 'user', id: d.user_id, blocks: true },
    ...(d.parent_id === undefined ? [] : [{ kind: 'service_key', id: d.parent_id, blocks: true }]),
  ],
  indexes: { user: (d) => d.user_id, hash: (d) => d.hash },
  keep: {
    until: ({ desired: { expires_at } }) =>
      expires_at === undefined ? undefined : Date.parse(expires_at) + retention.expiredKeysKeepMs,
  },
});
