import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../api.ts';
import type { Login } from '../api.ts';
import { html } from '../html.ts';
import type { Invite } from '../model.ts';
import { useTitle } from '../elements.ts';

/** Shows the invite in the link of a mail, and a button to accept it. */
export function InvitePage({ login, token }: { login: Login; token: string }): VNode {
  const [invite, setInvite] = useState<Invite>();
  const [error, setError] = useState('');
  useTitle('Invite');
  const fail = (failure: unknown): void => setError(failure instanceof Error ? failure.message : String(failure));
  useEffect(() => {
    call(login, 'GET', '/api/v1/invites/{token}', { path: { token } }).then(setInvite, fail);
  }, [login, token]);
  const accept = (): void => {
    call(login, 'POST', '/api/v1/invites/{token}/accept', { path: { token } }).then(() => location.assign('#/'), fail);
  };
  return html`<section>
    <h1>Invite</h1>
    ${
      invite !== undefined &&
      html`<p>You are invited to ${invite.project_name ?? 'this tenant'} with the role ${invite.role}.</p>
        <button class="main" onClick=${accept}>Accept</button>`
    }
    ${
      error !== '' &&
      html`<p class="error" role="alert">${error}</p>
        <p class="quiet">
          An invite is for one address: log in with the one that it was mailed to. This is ${login.email}.
        </p>`
    }
  </section>`;
}
