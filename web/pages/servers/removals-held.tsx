import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { WholeServer } from './whole-server.ts';

/** After a restore of the store: instances that it does not know stay until somebody confirms that they go. */
export function RemovalsHeld({ server }: { readonly server: WholeServer }): VNode | null {
  const { login, messages } = useConsole();
  const act = useAct();
  const [isOpen, setOpen] = useState(false);
  const held = server.conditions.find(({ type, status }) => type === 'RemovalsHeld' && status === 'true');
  if (held === undefined) return null;
  const confirm = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      const { held: count } = await call(login, 'POST', '/api/v1/servers/{id}/confirm-removals', {
        path: { id: server.id },
      });
      messages.say(`${count} instances are removed from ${server.name}`);
    });
    if (isDone) setOpen(false);
  };
  return (
    <>
      <Notice
        shape="warn"
        actions={
          <Button isSmall onClick={() => setOpen(true)}>
            Confirm removals…
          </Button>
        }
      >
        <p>{held.message}</p>
      </Notice>
      {isOpen && (
        <Confirm
          title={`Remove what the store does not know from ${server.name}`}
          verb="Remove them"
          goes={['Instances on this server that the store does not know']}
          stays={['All instances that the store knows', 'Volumes with their data']}
          type={server.name}
          command={`setpoint confirm-removals ${shellQuoted(server.name)}`}
          busy={act.busy}
          error={act.error}
          onConfirm={() => void confirm()}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  );
}
