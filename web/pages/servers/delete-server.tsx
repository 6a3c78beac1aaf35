import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import {
  allApplications,
  allDatabases,
  allFunctions,
  allTemplateInstances,
  allVolumes,
} from '../../frame/collections.ts';
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
  const own = useWorkloads(server.id);
  const names = own.slice(0, mostNamed);
  if (own.length > mostNamed) names.push(`${own.length - mostNamed} more`);
  const them = own.length === 1 ? 'it' : 'them';
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('server', () =>
        call(login, 'DELETE', '/api/v1/servers/{id}', {
          path: { id: server.id },
          query: force ? { force: 'true' } : {},
        }),
      ),
    );
    if (isDone) router.leave(href(['servers']));
  };
  return (
    <Confirm
      title={`Delete server ${server.name}`}
      verb={`Delete ${server.name}`}
      goes={[
        `Server ${server.name} and the identity of its agent`,
        'Its agent on the machine, with its containers, networks, images it built, logs and settings',
        ...(force ? names.map((name) => `What runs of ${name}`) : []),
      ]}
      stays={[
        'The machine itself, and what runs on it without this control plane',
        'Volumes with their data, on the machine alone and out of reach of Setpoint',
        ...(force ? [`${names.join(', ')}: in the console, without a server, until you delete ${them}`] : []),
        'Backups in their destinations',
      ]}
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
            This server has {names.join(', ')}. Move or delete {them} first, or delete the server with all that runs of{' '}
            {them}, which cannot be undone.
          </p>
          <Checkbox checked={force} onChange={setForce}>
            Delete it with all workloads on it
          </Checkbox>
        </div>
      )}
    </Confirm>
  );
}

/** What has its place on a server, by its kind and name. A volume of a database goes by its database. */
function useWorkloads(serverId: string): string[] {
  const volumes = useList(allVolumes, 'volume').objects.filter(({ database_id: id }) => id === null);
  const lists = [
    ['application', useList(allApplications, 'application').objects],
    ['database', useList(allDatabases, 'database').objects],
    ['function', useList(allFunctions, 'function').objects],
    ['template instance', useList(allTemplateInstances, 'template_instance').objects],
    ['volume', volumes],
  ] as const;
  return lists.flatMap(([word, objects]) =>
    objects.filter(({ server_id: id }) => id === serverId).map(({ name }) => `${word} ${name}`),
  );
}
