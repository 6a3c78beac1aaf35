import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allApplications } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Server } from '../../model.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { shellQuoted } from '../../parts/request-text.ts';

const mostNamed = 8;

/** Deletes a server. With workloads on it, they are named, and it is done only with force. */
export function DeleteServer({ server, onClose }: { readonly server: Server; readonly onClose: () => void }): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const [force, setForce] = useState(false);
  const own = useList(allApplications, 'application').objects.filter(({ server_id }) => server_id === server.id);
  const names = own.slice(0, mostNamed).map(({ name }) => `Application ${name}`);
  if (own.length > mostNamed) names.push(`${own.length - mostNamed} more applications`);
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('server', () =>
        call(login, 'DELETE', '/api/v1/servers/{id}', {
          path: { id: server.id },
          query: force ? { force: 'true' } : {},
        }),
      ),
    );
    if (isDone) router.go(href(['servers']));
  };
  return (
    <Confirm
      title={`Delete server ${server.name}`}
      verb={`Delete ${server.name}`}
      goes={[`Server ${server.name} and the identity of its agent`, ...(force ? names : [])]}
      stays={['The machine itself, and what runs on it without this control plane', 'Backups in their destinations']}
      type={own.length > 0 ? server.name : undefined}
      command={`setpoint delete server ${shellQuoted(server.name)}${force ? ' --force' : ''}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    >
      {own.length > 0 && (
        <div class="stack-tight">
          <p>
            {own.length === 1 ? 'An application runs' : `${own.length} applications run`} here. Move or delete{' '}
            {own.length === 1 ? 'it' : 'them'} first, or delete the server with {own.length === 1 ? 'it' : 'them'}.
          </p>
          <Checkbox checked={force} onChange={setForce}>
            Delete it with all workloads on it
          </Checkbox>
        </div>
      )}
    </Confirm>
  );
}
