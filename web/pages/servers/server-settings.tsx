import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { BodyOf } from '../body-of.ts';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { Values } from '../../parts/schema-form.tsx';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import { useBodyFields } from '../served-fields.ts';
import { serverLayout } from './form-layout.ts';
import { useServerControls } from './server-controls.tsx';
import type { WholeServer } from './whole-server.ts';

const formId = 'server-settings';

/** What can be changed of a server, as a form of its schema. */
export function ServerSettings({ server }: { readonly server: WholeServer }): VNode {
  const fields = useBodyFields('put', '/api/v1/servers/{id}');
  if (fields.error !== undefined) return <ErrorBox error={fields.error} onRetry={fields.again} />;
  if (fields.data === undefined) return <Skeleton lines={8} label="Reading the settings" />;
  return (
    <div class="stack">
      <Settings server={server} fields={fields.data} />
      <TrustHostKey server={server} />
    </div>
  );
}

/** The values of an object that a form has fields for. */
function valuesOf(object: Readonly<Record<string, unknown>>, fields: readonly FieldSpec[]): Values {
  return Object.fromEntries(fields.map(({ name }) => [name, object[name]]));
}

function Settings({ server, fields }: { readonly server: WholeServer; readonly fields: readonly FieldSpec[] }): VNode {
  const { login, store, messages } = useConsole();
  const custom = useServerControls();
  const shown = fields.filter(({ name }) => name in server);
  const [base, setBase] = useState(server);
  const start = valuesOf(base, shown);
  const form = useForm(shown, start, async (changed) => {
    // the fields are those of the schema of this body
    const body = changed as BodyOf<'updateServer'>;
    const saved = await store.answer('server', () =>
      call(login, 'PUT', '/api/v1/servers/{id}', { path: { id: server.id }, body, ifMatch: base.resource_version }),
    );
    messages.say(`${server.name} is saved`);
    take({ ...server, ...saved });
  });
  const take = (now: WholeServer): void => {
    setBase(now);
    form.reset(valuesOf(now, shown));
  };
  const isChanged = Object.keys(form.changed).length > 0;
  const isBehind = server.resource_version !== base.resource_version && !form.busy;
  if (isBehind && !isChanged) take(server);
  return (
    <>
      {isBehind && isChanged && (
        <Notice shape="warn">
          <p>It was changed meanwhile. “Discard” takes what is stored; saving is refused until then.</p>
        </Notice>
      )}
      <Form label={`Settings of ${server.name}`} id={formId} error={form.error} onSubmit={form.submit}>
        <SchemaForm
          fields={shown}
          layout={serverLayout}
          values={form.values}
          onChange={form.setValues}
          faults={form.faults}
          custom={custom}
        />
      </Form>
      <SaveBar
        form={formId}
        changes={fieldChanges(start, form.values)}
        busy={form.busy}
        effect="what runs goes on; a change of the proxy is taken up within seconds"
        onDiscard={() => take(server)}
      />
    </>
  );
}

/** Pins another host key, after it was compared on the machine. */
function TrustHostKey({ server }: { readonly server: WholeServer }): VNode | null {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const [fingerprint, setFingerprint] = useState('');
  if (server.ip_address === null) return null;
  const trust = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('server', () =>
        call(login, 'POST', '/api/v1/servers/{id}/trust-host-key', {
          path: { id: server.id },
          body: { fingerprint: fingerprint.trim() },
        }),
      ),
    );
    if (!isDone) return;
    setFingerprint('');
    messages.say('The host key is pinned');
  };
  const wrong = act.error?.details?.find(({ field }) => field === 'fingerprint')?.message;
  return (
    <Card title="Host key">
      <p class="quiet">
        {server.host_key === null
          ? 'No key is pinned yet: the first one that the machine shows will be.'
          : 'Only a machine with the pinned key is logged in to. After a machine was set up anew, compare its key on the machine and pin it here.'}
      </p>
      {server.host_key !== null && <code>{server.host_key.fingerprint}</code>}
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      <form
        class="form"
        aria-label="Host key"
        onSubmit={(event) => {
          event.preventDefault();
          void trust();
        }}
      >
        <Field
          label="Fingerprint of the machine"
          help="On the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
          error={wrong}
        >
          {(control) => (
            <TextInput control={control} value={fingerprint} onInput={setFingerprint} placeholder="SHA256:…" isMono />
          )}
        </Field>
        <div class="form-foot">
          <Button
            type="submit"
            busy={act.busy}
            why={fingerprint.trim() === '' ? 'Enter the fingerprint first' : undefined}
          >
            Trust this key
          </Button>
        </div>
      </form>
    </Card>
  );
}
