import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Data, Operation } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Server } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { JoinSteps } from '../servers/join-steps.tsx';

type Joining = Data<Operation<'POST', '/api/v1/servers'>>;

/** Declares a server and shows the command by which its machine joins; the step is done once its agent connects. */
export function FirstServer({ server }: { server: Server | undefined }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const [name, setName] = useState('first');
  const [opensPorts, setOpensPorts] = useState(true);
  const [join, setJoin] = useState<Joining>();
  const declare = async (): Promise<void> => {
    await act.run(async () => {
      const made = await call(login, 'POST', '/api/v1/servers', {
        body: { name: name.trim(), direct_ports_enabled: opensPorts },
      });
      setJoin(made);
      await store.answer('server', () => Promise.resolve(made));
    });
  };
  const renew = (id: string): Promise<boolean> =>
    act.run(async () =>
      setJoin(await call(login, 'POST', '/api/v1/servers/{id}/join-token', { path: { id }, body: {} })),
    );
  if (server !== undefined)
    return (
      <Card
        title={`Server ${server.name}`}
        actions={
          join === undefined && (
            <Button busy={act.busy} onClick={() => void renew(server.id)}>
              Show a new command
            </Button>
          )
        }
      >
        {act.error !== undefined && <ErrorBox error={act.error} />}
        <JoinSteps server={server} join={join} />
      </Card>
    );
  return (
    <Card title="A server">
      <p class="quiet">
        A server is a machine with Docker, yours to keep. Its agent connects to this control plane, so that no port
        needs to be open for it.
      </p>
      <Form
        label="A server"
        verb="Declare the server"
        busy={act.busy}
        why={name.trim() === '' ? 'Give it a name first' : undefined}
        error={act.error}
        onSubmit={() => {
          void declare();
          return true;
        }}
      >
        <Field label="Name of the server" isRequired>
          {(control) => (
            <input
              {...control}
              class="input"
              value={name}
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => setName(currentTarget.value)}
            />
          )}
        </Field>
        <Checkbox checked={opensPorts} onChange={setOpensPorts}>
          Open ports of applications on the server itself, so that they are reached without a domain
        </Checkbox>
      </Form>
    </Card>
  );
}
