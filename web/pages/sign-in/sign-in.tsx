import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Data, Login, Operation } from '../../api.ts';
import { useAttempt } from './attempt.ts';
import { Entry } from './entry.tsx';
import { FirstUser } from './first-user.tsx';
import { textOf, TextField } from './text-field.tsx';

/** A password or a mailed code; an invited user without a password signs in by a code. */
type Way = 'password' | 'code';
type Setup = Data<Operation<'GET', '/api/v1/auth/setup-status'>>;

interface SignInProps {
  readonly done: (login: Login) => void | Promise<void>;
  /** The tenant that the address names. */
  readonly tenant: string;
  /** Who was signed in before. */
  readonly email?: string;
  /** Why the session before ended. */
  readonly why?: string;
}

/** Where one signs in; on an installation without users, where the first one is made. */
export function SignIn(props: SignInProps): VNode {
  const { done, tenant } = props;
  const [setup, setSetup] = useState<Setup>();
  useEffect(() => {
    call({ tenant }, 'GET', '/api/v1/auth/setup-status').then(setSetup, () => undefined); // the form says what is wrong
  }, [tenant]);
  if (setup?.setup_complete === false)
    return <FirstUser tenant={tenant} needsToken={setup.setup_token_required} done={done} />;
  return <SignInForm {...props} />;
}

function SignInForm(props: SignInProps): VNode {
  const [tenant, setTenant] = useState(props.tenant);
  const [email, setEmail] = useState(props.email ?? '');
  const [way, setWay] = useState<Way>('password');
  const [isSent, setSent] = useState(false);
  const [needsSecond, setNeedsSecond] = useState(false);
  const attempt = useAttempt(props.why);

  const submit = (form: FormData): Promise<void> => {
    const second = needsSecond && { totp: textOf(form, 'totp') };
    return attempt.run(
      async () => {
        if (way === 'code' && !isSent) {
          await call({ tenant }, 'POST', '/api/v1/auth/send-code', { body: { email } });
          setSent(true);
          return;
        }
        const { token } =
          way === 'code'
            ? await call({ tenant }, 'POST', '/api/v1/auth/verify-code', {
                body: { email, code: textOf(form, 'code').trim(), ...second },
              })
            : await call({ tenant }, 'POST', '/api/v1/auth/login', {
                body: { email, password: textOf(form, 'password'), ...second },
              });
        await props.done({ tenant, token, email });
      },
      (refusal) => {
        if (refusal.reason !== 'totp_required' || needsSecond) return false;
        setNeedsSecond(true);
        attempt.say('Enter the code of your second factor.');
        return true;
      },
    );
  };

  const other = (): void => {
    setWay(way === 'password' ? 'code' : 'password');
    setSent(false);
    attempt.say('');
  };
  return (
    <Entry
      title="Sign in"
      attempt={attempt}
      verb={way === 'code' && !isSent ? 'Mail me a code' : 'Sign in'}
      onSubmit={(form) => void submit(form)}
      other={
        <button class="link-button" type="button" onClick={other}>
          {way === 'password' ? 'Sign in by a mailed code' : 'Sign in by password'}
        </button>
      }
    >
      <TextField label="Tenant" name="tenant" value={tenant} onInput={setTenant} autocomplete="organization" />
      <TextField
        label="E-mail"
        name="email"
        type="email"
        value={email}
        onInput={setEmail}
        autocomplete="username"
        autofocus={props.email === undefined}
      />
      {way === 'password' && (
        <TextField
          label="Password"
          name="password"
          type="password"
          autocomplete="current-password"
          autofocus={props.email !== undefined}
        />
      )}
      {way === 'code' && isSent && (
        <>
          <p class="quiet small" role="status">
            If this address may sign in, a code is on its way to it, good for ten minutes.
          </p>
          <TextField label="Code from the mail" name="code" isNumeric autocomplete="one-time-code" autofocus />
        </>
      )}
      {needsSecond && (
        <TextField label="Code of the second factor" name="totp" isNumeric autocomplete="one-time-code" autofocus />
      )}
    </Entry>
  );
}
