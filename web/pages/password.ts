import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../api.ts';
import type { Login } from '../api.ts';
import { html } from '../html.ts';
import { textOf, useTitle } from '../elements.ts';

/** Asks for a password in place of the one from the operator. `done` is called once it is changed. */
export function PasswordPage({ login, done }: { login: Login; done: () => void }): VNode {
  const [error, setError] = useState('');
  const [isBusy, setBusy] = useState(false);
  useTitle('Another password');

  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement); // the form below
    const body = { current_password: textOf(form, 'current'), new_password: textOf(form, 'new') };
    setBusy(true);
    setError('');
    try {
      await call(login, 'PUT', '/api/v1/auth/me/password', { body });
      done();
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    } finally {
      setBusy(false);
    }
  };

  return html`<form class="login" onSubmit=${submit}>
    <h1>Another password</h1>
    <p class="quiet">The operator reset the password of ${login.email}. Choose another one to go on.</p>
    <label
      >Password from the operator <input name="current" type="password" required autocomplete="current-password"
    /></label>
    <label>New password <input name="new" type="password" required minlength="8" autocomplete="new-password" /></label>
    ${error !== '' && html`<p class="error" role="alert">${error}</p>`}
    <button class="main" disabled=${isBusy}>Change the password</button>
  </form>`;
}
