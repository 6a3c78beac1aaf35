import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call, Refused } from '../api.ts';
import type { Login } from '../api.ts';
import { html } from '../html.ts';

/** Asks who is there. `why` says what ended the session before. */
export function LoginPage({ done, why }: { done: (login: Login) => void; why?: string }): VNode {
  const [error, setError] = useState(why ?? '');
  const [needsCode, setNeedsCode] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement); // the form below
    const text = (name: string): string => {
      const value = form.get(name);
      return typeof value === 'string' ? value : '';
    };
    const tenant = text('tenant');
    setBusy(true);
    try {
      const body = { email: text('email'), password: text('password'), ...(needsCode && { totp: text('totp') }) };
      const { token } = await call<{ token: string }>({ tenant }, 'POST', '/auth/login', body);
      done({ tenant, token, email: body.email });
    } catch (failure) {
      if (failure instanceof Refused && failure.reason === 'totp_required') {
        setNeedsCode(true);
        setError(needsCode ? failure.message : 'Enter the code of your second factor.');
      } else setError(failure instanceof Error ? failure.message : String(failure));
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="login" onSubmit=${submit}>
    <h1>Setpoint</h1>
    <label>Tenant <input name="tenant" value="default" required autocomplete="organization" /></label>
    <label>E-mail <input name="email" type="email" required autocomplete="username" autofocus /></label>
    <label>Password <input name="password" type="password" required autocomplete="current-password" /></label>
    ${needsCode && html`<label>Code <input name="totp" inputmode="numeric" autocomplete="one-time-code" required /></label>`}
    <button disabled=${isBusy}>Log in</button>
    ${error !== '' && html`<p class="error" role="alert">${error}</p>`}
  </form>`;
}
