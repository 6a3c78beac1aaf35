import type { TenantView } from '../../store/mirror.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { Resource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import type { Invite } from '../rights/invites.ts';
import { mayBringIn, openInvitesTo } from '../rights/invites.ts';

/**
 * The open invite by which an address gets an account. An invite to the tenant, which names a role, precedes one to a
 * project.
 */
export function invitationTo(
  email: string,
  { view, clock }: Pick<RequestContext, 'view' | 'clock'>,
): Invite | undefined {
  const open = openInvitesTo(email, view, clock.now()).filter((it) => bringsIn(it, view));
  return open.find(({ desired }) => desired.project_id === undefined) ?? open[0];
}

/**
 * Whether an invite creates an account. An invite to a project does so only if its sender may bring in new addresses.
 */
function bringsIn({ desired }: Invite, view: TenantView): boolean {
  const sender = view.get('user', desired.invited_by);
  return desired.project_id === undefined || (sender !== undefined && mayBringIn(sender, view));
}

/** Adds the account, without a password, to the unit. An invite to the tenant is accepted by it. */
export function createInvited(
  { random, clock, view }: Pick<RequestContext, 'random' | 'clock' | 'view'>,
  unit: Unit,
  invite: Invite,
): Resource<'user'> {
  const { email, role, project_id, invited_by } = invite.desired;
  const user = unit.create('user', random.id(), {
    email,
    first_name: '',
    last_name: '',
    role: project_id === undefined && role === 'admin' ? 'admin' : 'user',
    must_reset_password: false,
    two_factor_enabled: false,
    disabled: false,
    ...(project_id !== undefined && { confined_to: [project_id] }),
  });
  // the commit fails if the inviter has lost the right to invite meanwhile
  const inviter = view.get('user', invited_by);
  if (inviter !== undefined) unit.require(inviter);
  if (project_id === undefined)
    unit.change(invite, (draft) => {
      draft.state = 'accepted';
      draft.accepted_by = user.meta.id;
      draft.accepted_at = clock.now().toISOString();
    });
  else unit.require(invite);
  return user;
}
