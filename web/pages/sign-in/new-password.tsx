import type { VNode } from 'preact';
import { call } from '../../api.ts';
import type { Login } from '../../api.ts';
import { useAttempt } from './attempt.ts';
import { Entry } from './entry.tsx';
import { textOf, TextField } from './text-field.tsx';

/** Asks for a password in place of the one from the operator. `done` is called once it is changed. */
export function NewPassword({ login, done }: { login: Login; done: () => void }): VNode {
  const attempt = useAttempt();
  const submit = (form: FormData): Promise<void> =>
    attempt.run(async () => {
      const body = { current_password: textOf(form, 'current'), new_password: textOf(form, 'new') };
      await call(login, 'PUT', '/api/v1/auth/me/password', { body });
      done();
    });
  return (
    <Entry title="Another password" attempt={attempt} verb="Change the password" onSubmit={(form) => void submit(form)}>
      <p class="quiet">The operator reset the password of {login.email}. Choose another one to go on.</p>
      <TextField label="Password from the operator" name="current" type="password" autocomplete="current-password" />
      <TextField label="New password" name="new" type="password" minLength={8} autocomplete="new-password" />
    </Entry>
  );
}
