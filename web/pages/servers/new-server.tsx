import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { components } from '../../api-types.d.ts';
import { call } from '../../api.ts';
import { allServers } from '../../frame/collections.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Form } from '../../parts/form.tsx';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import type { BodyOf } from '../body-of.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';
import { serverLayout } from './form-layout.ts';
import { JoinSteps } from './join-steps.tsx';
import { useServerControls } from './server-controls.tsx';

type Joining = components['schemas']['ServerWithJoin'];
/** Declares a server, and then shows how its machine joins. */
export function NewServer({ onClose }: { onClose: () => void }): VNode {
  const fields = useBodyFields('post', '/api/v1/servers');
  const [made, setMade] = useState<Joining>();
  if (made !== undefined) return <Joined made={made} onClose={onClose} />;
  if (fields.data === undefined)
    return (
      <Drawer title="New server" onClose={onClose}>
        {fields.error === undefined ? <Skeleton /> : <ErrorBox error={fields.error} onRetry={fields.again} />}
      </Drawer>
    );
  return <Entry fields={fields.data} onMade={setMade} onClose={onClose} />;
}

interface EntryProps {
  readonly fields: readonly FieldSpec[];
  readonly onMade: (made: Joining) => void;
  readonly onClose: () => void;
}

function Entry({ fields, onMade, onClose }: EntryProps): VNode {
  const { login, collections } = useConsole();
  const custom = useServerControls();
  const form = useForm(fields, { name: '' }, async (changed) => {
    // the fields are those of the schema of this body
    const body = changed as BodyOf<'createServer'>;
    onMade(await call(login, 'POST', '/api/v1/servers', { body }));
    collections.retry(allServers);
  });
  const { name: given } = form.values;
  const name = typeof given === 'string' ? given : '';
  return (
    <Drawer
      title="New server"
      onClose={onClose}
      dirty={Object.keys(form.changed).length > 0}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="new-server"
            busy={form.busy}
            why={name.trim() === '' ? 'Give it a name first' : undefined}
          >
            Create server
          </Button>
        </>
      }
    >
      <Form label="New server" id="new-server" error={form.error} onSubmit={form.submit}>
        <SchemaForm
          fields={fields}
          layout={serverLayout}
          values={form.values}
          onChange={form.setValues}
          faults={form.faults}
          custom={custom}
        />
      </Form>
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, '/api/v1/servers'), body: form.changed }}
        command={`setpoint create server ${shellQuoted(name === '' ? 'NAME' : name)}`}
      />
    </Drawer>
  );
}

function Joined({ made, onClose }: { readonly made: Joining; readonly onClose: () => void }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const server = store.get('server', made.id) ?? made;
  return (
    <Drawer
      title={`How ${made.name} joins`}
      onClose={onClose}
      foot={
        <LinkButton tone="primary" href={href(['servers', made.id])}>
          Open {made.name}
        </LinkButton>
      }
    >
      <JoinSteps server={server} join={made} />
    </Drawer>
  );
}
