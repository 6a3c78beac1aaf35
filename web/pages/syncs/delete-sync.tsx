import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { Sync } from './sync-words.ts';

/** Asks before a sync goes: what it made stays, and is kept by nobody. */
export function DeleteSync({ it, onClose }: { readonly it: Sync; readonly onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const project = store.get('project', it.project_id);
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('sync', () => call(login, 'DELETE', '/api/v1/syncs/{id}', { path: { id: it.id } })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete sync ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[`The sync ${it.name} with the record of its runs`, `Its service key “Sync ${it.name}”`]}
      stays={[
        `All that it has made in ${project?.display_name ?? project?.name ?? 'its project'}: applications, functions, databases and volumes with their data`,
        `The repository ${it.repository_url}, and the webhooks for it`,
      ]}
      command={`setpoint sync delete ${shellQuoted(it.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
