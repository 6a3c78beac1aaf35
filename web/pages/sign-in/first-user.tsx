import type { VNode } from 'preact';
import { call } from '../../api.ts';
import type { Login } from '../../api.ts';
import { hrefOf } from '../../frame/router.ts';
import { useAttempt } from './attempt.ts';
import { Entry } from './entry.tsx';
import { textOf, TextField } from './text-field.tsx';

interface FirstUserProps {
  readonly tenant: string;
  /** The server printed a token that the first user must have. */
  readonly needsToken: boolean;
  readonly done: (login: Login) => void | Promise<void>;
}

/** Makes the first user of an installation, who then adds a server and an application. */
export function FirstUser({ tenant, needsToken, done }: FirstUserProps): VNode {
  const attempt = useAttempt();
  const submit = (form: FormData): Promise<void> =>
    attempt.run(async () => {
      const email = textOf(form, 'email');
      const { token } = await call({ tenant }, 'POST', '/api/v1/auth/register', {
        body: {
          email,
          password: textOf(form, 'password'),
          first_name: textOf(form, 'first_name'),
          last_name: textOf(form, 'last_name'),
          ...(needsToken && { setup_token: textOf(form, 'setup_token') }),
        },
      });
      location.hash = hrefOf(tenant, ['welcome']);
      await done({ tenant, token, email });
    });
  return (
    <Entry title="Set up Setpoint" attempt={attempt} verb="Create the account" onSubmit={(form) => void submit(form)}>
      <p class="quiet">
        Nobody has an account in the tenant {tenant} yet. The first one may do everything, and invites the others.
      </p>
      <TextField label="E-mail" name="email" type="email" autocomplete="username" autofocus />
      <TextField
        label="Password"
        name="password"
        type="password"
        minLength={8}
        autocomplete="new-password"
        help="At least 8 characters"
      />
      <div class="entry-pair">
        <TextField label="First name" name="first_name" isOptional autocomplete="given-name" />
        <TextField label="Last name" name="last_name" isOptional autocomplete="family-name" />
      </div>
      {needsToken && (
        <TextField
          label="Setup token"
          name="setup_token"
          autocomplete="off"
          help="The server printed it when it started for the first time"
        />
      )}
    </Entry>
  );
}
