import type { ReadonlyResource } from '../../store/resource.ts';
import type { Mail } from '../mail/mailer.ts';

export interface Invitation {
  invite: ReadonlyResource<'invite'>;
  /** Absent for an invite to the tenant. */
  project: ReadonlyResource<'project'> | undefined;
  inviter: ReadonlyResource<'user'> | undefined;
  token: string;
  /** Address of the installation without a slash at its end. Links are made from it alone, never from a request. */
  publicUrl: string;
}

/** The mail of an invite. Its token is in the fragment of the link: no server gets it before the user accepts. */
export function invitationMail({ invite, project, inviter, token, publicUrl }: Invitation): Mail {
  const { meta, desired } = invite;
  const to =
    project === undefined ? `the tenant ${meta.tenant}` : `a project, which is called "${project.desired.name}",`;
  return {
    to: desired.email,
    // no text of a user is in the subject: mail programs would show it as text of the sender
    subject: project === undefined ? `Invitation to ${to}` : 'Invitation to a project',
    text: [
      `${inviter?.desired.email ?? 'Somebody'} invites you to ${to} on ${publicUrl}. Your role: ${desired.role}.`,
      '',
      'Log in with this address to accept:',
      `${publicUrl}/console#/${meta.tenant}/invites/${token}`,
      '',
      `The invitation is for your address alone and good until ${desired.expires_at.slice(0, 10)}.`,
      'If you do not know who invites you, ignore this mail.',
      '',
    ].join('\n'),
  };
}
