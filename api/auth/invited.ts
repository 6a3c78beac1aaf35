import type { Unit } from '../../store/repo.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import type { RequestContext } from '../context.ts';
import type { Invite } from '../invites.ts';
import { openInvitesTo } from '../invites.ts';

/** The one of several invites to an address that an account is made by. */
export interface Invitation {
  invite: Invite;
  role: 'admin' | 'user';
  /** Whose rights a role above that of a user rests on. */
  inviter: ReadonlyResource<'user'> | undefined;
}

/**
 * How an address may get an account: by an invite to the tenant, which may name a role, or to a project. An invite to
 * the tenant counts while whoever sent it could still send it.
 */
export function invitationTo(email: string, { view, clock }: Pick<RequestContext, 'view' | 'clock'>) {
  const invitations = openInvitesTo(email, view, clock.now()).flatMap((invite): Invitation[] => {
    if (invite.desired.project_id !== undefined) return [{ invite, role: 'user', inviter: undefined }];
    const inviter = view.get('user', invite.desired.invited_by);
    const role = invite.desired.role === 'admin' ? 'admin' : 'user';
    const mayInvite = role === 'admin' ? ['superadmin'] : ['superadmin', 'admin'];
    return inviter !== undefined && !inviter.desired.disabled && mayInvite.includes(inviter.desired.role)
      ? [{ invite, role, inviter }]
      : [];
  });
  return invitations.find(({ inviter }) => inviter !== undefined) ?? invitations[0];
}

/** Adds the account without a password to the unit. An invite to the tenant is thereby accepted. */
export function createInvited(
  { random, clock }: Pick<RequestContext, 'random' | 'clock'>,
  unit: Unit,
  { invite, role, inviter }: Invitation,
): Resource<'user'> {
  const user = unit.create('user', random.id(), {
    email: invite.desired.email,
    first_name: '',
    last_name: '',
    role,
    must_reset_password: false,
    two_factor_enabled: false,
    disabled: false,
  });
  if (inviter === undefined) unit.require(invite);
  else {
    unit.require(inviter);
    unit.change(invite, (draft) => {
      draft.state = 'accepted';
      draft.accepted_by = user.meta.id;
      draft.accepted_at = clock.now().toISOString();
    });
  }
  return user;
}
