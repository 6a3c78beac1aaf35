import { z } from 'zod';
import { foldName } from '../fold-name.ts';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id, Timestamp } from './fields.ts';

/** What a member may do in a project; its owner is named by the project itself and is never a member. */
export const MemberRole = z.enum(['admin', 'member', 'viewer']);
export type MemberRole = z.infer<typeof MemberRole>;

/** The place of one user in one project. */
export const member = defineKind({
  kind: 'member',
  version: 1,
  /** Only the API acts on it. */
  ignorable: true,
  desired: z.object({ project_id: Id, user_id: Id, role: MemberRole }),
  observed: z.object({}),
  unique: (d) => [{ scope: d.project_id, name: d.user_id }],
  owners: (d) => [
    { kind: 'project', id: d.project_id, blocks: true },
    { kind: 'user', id: d.user_id, blocks: true },
  ],
  indexes: {
    project: (d) => d.project_id,
    user: (d) => d.user_id,
    place: (d) => placeOf(d.project_id, d.user_id),
  },
  // A member sees what is left of the project until it is gone.
  keep: { untilDeleted: 'An admin removes it, or it goes with its project or user', outlivesDeletionOf: ['project'] },
});

/** Value of the index `place`: at most one member has it. */
export function placeOf(projectId: string, userId: string): string {
  return `${projectId}/${userId}`;
}

export const InviteState = z.enum(['pending', 'accepted', 'cancelled']);

/**
 * An offer to the owner of an address: a role in a project or, without a project, an account of the tenant. Whether a
 * pending invite has expired follows from the time.
 */
export const invite = defineKind({
  kind: 'invite',
  version: 1,
  desired: z.object({
    project_id: Id.optional(),
    email: z.string(),
    /** Role in the project; for an invite to the tenant, the global role. */
    role: z.enum([...MemberRole.options, 'user']),
    invited_by: Id,
    expires_at: Timestamp,
    state: InviteState.default('pending'),
    accepted_by: Id.optional(),
    accepted_at: Timestamp.optional(),
    cancelled_at: Timestamp.optional(),
  }),
  observed: z.object({
    /** SHA-256 (hex) of the tokens that were mailed, the newest last. */
    token_hashes: z.array(z.string()).max(3).default([]),
  }),
  unique: (d) => (d.state === 'pending' ? [{ scope: d.project_id ?? 'tenant', name: d.email }] : []),
  owners: (d) => (d.project_id === undefined ? [] : [{ kind: 'project', id: d.project_id, blocks: true }]),
  indexes: {
    project: (d) => d.project_id ?? 'tenant',
    /** Index of the addresses that {@link addressOf} returns. */
    email: (d) => addressOf(d.email),
    token: (_, o) => o?.token_hashes,
    sender: (d) => d.invited_by,
  },
  keep: {
    until: ({ desired: { accepted_at, cancelled_at, expires_at } }) =>
      Date.parse(accepted_at ?? cancelled_at ?? expires_at) + retention.invitesKeepMs,
  },
});

/** Value of the index `email`: the same for every spelling of one address. */
export function addressOf(email: string): string {
  return foldName(email);
}
