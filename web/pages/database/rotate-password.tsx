import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Data, Operation } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { SecretInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { shownPath } from '../served-fields.ts';
import type { Database } from './tab-props.ts';

type Rotated = Data<Operation<'POST', '/api/v1/databases/{id}/rotate-password'>>;

const formId = 'rotate-password';

/** Changes the password of a database, and then names the applications and functions that have to be deployed. */
export function RotatePassword({ it, onClose }: { readonly it: Database; readonly onClose: () => void }): VNode {
  const { login } = useConsole();
  const href = useHref();
  const act = useAct();
  const [password, setPassword] = useState<string>();
  const [done, setDone] = useState<Rotated>();
  const body = password === undefined || password === '' ? {} : { password };
  const rotate = async (): Promise<void> => {
    await act.run(async () => {
      setDone(await call(login, 'POST', '/api/v1/databases/{id}/rotate-password', { path: { id: it.id }, body }));
    });
  };
  const fault = act.error?.details?.find(({ field }) => field.endsWith('password'))?.message;
  if (done !== undefined)
    return (
      <Dialog
        title={`The password of ${it.name} is being changed`}
        onClose={onClose}
        foot={
          <Button tone="primary" onClick={onClose}>
            Done
          </Button>
        }
      >
        <p>It starts anew with the other password. Until it has, its credentials show the former one.</p>
        {done.applications.length + done.functions.length === 0 ? (
          <p>No variable of an application or a function refers to it.</p>
        ) : (
          <Notice shape="warn">
            <p>These have the former password until they are deployed, and cannot connect until then:</p>
            <ul>
              {done.applications.map(({ id, name }) => (
                <li key={id}>
                  <a href={href(['applications', id])}>{name}</a>
                </li>
              ))}
              {done.functions.map(({ id, name }) => (
                <li key={id}>
                  <a href={href(['functions', id])}>{name}</a>
                </li>
              ))}
            </ul>
          </Notice>
        )}
      </Dialog>
    );
  return (
    <Dialog
      title={`Change the password of ${it.name}`}
      onClose={onClose}
      dirty={password !== undefined}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="danger" type="submit" form={formId} busy={act.busy}>
            Change it
          </Button>
        </>
      }
    >
      {act.error !== undefined && fault === undefined && <ErrorBox error={act.error} />}
      <Notice shape="warn">
        <p>
          It starts anew on the same data, and all connections end. Nobody connects with the former password after that.
        </p>
      </Notice>
      <form
        id={formId}
        class="form"
        aria-label={`Change the password of ${it.name}`}
        onSubmit={(event) => {
          event.preventDefault();
          void rotate();
        }}
      >
        <Field label="New password" help="Empty: one is generated." error={fault} isOptional>
          {(control) => <SecretInput control={control} value={password} onInput={setPassword} />}
        </Field>
      </form>
      <ShowAs
        origin={location.origin}
        request={{
          method: 'POST',
          path: shownPath(login, `/api/v1/databases/${it.id}/rotate-password`),
          body,
          secrets: ['password'],
        }}
        command={`setpoint db rotate-password ${shellQuoted(it.name)}`}
      />
    </Dialog>
  );
}
