import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Server } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Facts } from '../../parts/card.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';

/** Lets an agent update itself to the release that the control plane has. */
export function UpdateAgent({ server, onClose }: { readonly server: Server; readonly onClose: () => void }): VNode {
  const { login, messages } = useConsole();
  const act = useAct();
  const path = { id: server.id };
  const status = useRead(() => call(login, 'GET', '/api/v1/servers/{id}/agent-status', { path }), [server.id]);
  const available = status.data?.available_agent_version ?? undefined;
  const update = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'POST', '/api/v1/servers/{id}/update-agent', {
        path,
        body: available === undefined ? {} : { version: available },
      }),
    );
    if (!isDone) return;
    messages.say(`The agent of ${server.name} updates itself`);
    onClose();
  };
  const why = status.data === undefined ? 'Its version is being read' : undefined;
  return (
    <Dialog
      title={`Update the agent of ${server.name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            busy={act.busy}
            why={
              why ?? (available === undefined ? 'It runs the newest version that this control plane has' : undefined)
            }
            onClick={() => void update()}
          >
            Update
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {status.error !== undefined && <ErrorBox error={status.error} onRetry={status.again} />}
      {status.data === undefined && status.error === undefined && <Skeleton lines={2} />}
      {status.data !== undefined && (
        <Facts
          of={[
            ['Runs', status.data.agent_version ?? 'not known'],
            ['Available', available ?? 'nothing newer'],
          ]}
        />
      )}
      <p>
        The agent replaces itself and goes back to the version before if the new one does not connect. What runs on the
        server goes on meanwhile.
      </p>
    </Dialog>
  );
}
