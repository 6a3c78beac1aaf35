import type { ReadonlyResource } from '../../store/resource.ts';
import type { Mail } from '../mail/mailer.ts';

export interface Invitation {
  invite: ReadonlyResource<'invite'>;
  /** Absent: to the tenant. */
  project: ReadonlyResource<'project'> | undefined;
  inviter: ReadonlyResource<'user'> | undefined;
  token: string;
  /** Without slash at its end; a link comes from here alone, whatever a request said. */
  publicUrl: string;
}

/** The token is in the fragment of the link: a browser sends it to no server before somebody accepts. */
export function invitationMail({ invite, project, inviter, token, publicUrl }: Invitation): Mail {
  const { meta, desired } = invite;
  const to =
    project === undefined ? `the tenant ${meta.tenant}` : `a project, which is called "${project.desired.name}",`;
  return {
    to: desired.email,
    // what users write does not stand where mail programs show it as the word of the sender
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
