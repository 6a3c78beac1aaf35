import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call, Refused } from '../api.ts';
import type { Login } from '../api.ts';
import { html } from '../html.ts';
import { textOf, useTitle } from '../elements.ts';

/** A password or a mailed code; an invited user without a password logs in by a code. */
type Way = 'password' | 'code';

/** The login form. `why` is the reason why the session before ended. */
export function LoginPage(props: { done: (login: Login) => void; tenant: string; why?: string }): VNode {
  const [tenant, setTenant] = useState(props.tenant);
  const [error, setError] = useState(props.why ?? '');
  const [way, setWay] = useState<Way>('password');
  const [isSent, setSent] = useState(false);
  const [needsSecond, setNeedsSecond] = useState(false);
  const [isBusy, setBusy] = useState(false);
  useTitle('Log in');

  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement); // the form below
    const email = textOf(form, 'email');
    setBusy(true);
    setError('');
    try {
      if (way === 'code' && !isSent) {
        await call({ tenant }, 'POST', '/api/v1/auth/send-code', { body: { email } });
        setSent(true);
        return;
      }
      const second = needsSecond && { totp: textOf(form, 'totp') };
      const { token } =
        way === 'code'
          ? await call({ tenant }, 'POST', '/api/v1/auth/verify-code', {
              body: { email, code: textOf(form, 'code'), ...second },
            })
          : await call({ tenant }, 'POST', '/api/v1/auth/login', {
              body: { email, password: textOf(form, 'password'), ...second },
            });
      props.done({ tenant, token, email });
    } catch (failure) {
      if (failure instanceof Refused && failure.reason === 'totp_required' && !needsSecond) {
        setNeedsSecond(true);
        setError('Enter the code of your second factor.');
      } else setError(failure instanceof Error ? failure.message : String(failure));
    } finally {
      setBusy(false);
    }
  };

  const other = (): void => {
    setWay(way === 'password' ? 'code' : 'password');
    setSent(false);
    setError('');
  };
  const asksCode = way === 'code' && isSent;
  return html`<main>
    <form class="login" onSubmit=${submit}>
      <h1>Setpoint</h1>
      <label
        >Tenant
        <input
          name="tenant"
          value=${tenant}
          onInput=${({ currentTarget }: { currentTarget: HTMLInputElement }) => setTenant(currentTarget.value)}
          required
          autocomplete="organization"
      /></label>
      <label>E-mail <input name="email" type="email" required autocomplete="username" autofocus /></label>
      ${
        way === 'password' &&
        html`<label>Password <input name="password" type="password" required autocomplete="current-password" /></label>`
      }
      ${
        asksCode &&
        html`<p class="quiet small" role="status">
            If this address may log in, a code is on its way to it, good for ten minutes.
          </p>
          <label
            >Code from the mail <input name="code" inputmode="numeric" autocomplete="one-time-code" required autofocus
          /></label>`
      }
      ${needsSecond && html`<label>Code of the second factor <input name="totp" inputmode="numeric" required /></label>`}
      ${error !== '' && html`<p class="error" role="alert">${error}</p>`}
      <button class="main" disabled=${isBusy}>${way === 'code' && !isSent ? 'Mail me a code' : 'Log in'}</button>
      <button class="plain" type="button" onClick=${other}>
        ${way === 'password' ? 'Log in by a mailed code' : 'Log in by password'}
      </button>
    </form>
  </main>`;
}
