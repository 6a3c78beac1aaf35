import type { VNode } from 'preact';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { Database } from './tab-props.ts';

const countedBackups = 500;

/** Asks before a database goes: its data goes with it, its backups stay. */
export function DeleteDatabase({ it, onClose }: { readonly it: Database; readonly onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const path = { id: it.id };
  const used = useRead(() => call(login, 'GET', '/api/v1/databases/{id}/dependencies', { path }), [it.id]).data;
  const users = [...(used?.applications ?? []), ...(used?.functions ?? [])];
  const backups = useRead(
    () => list(login, '/api/v1/databases/{id}/backups', countedBackups, { path, query: { status: ['completed'] } }),
    [it.id],
  ).data;
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('database', () => call(login, 'DELETE', '/api/v1/databases/{id}', { path })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[
        `The database ${it.name} with all data in it`,
        'Its volume, its schedules and its password',
        ...(it.exposed_port === null ? [] : [`Port ${it.exposed_port} of its server`]),
      ]}
      stays={staysOf(backups?.length)}
      type={it.name}
      command={`setpoint delete database ${shellQuoted(it.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    >
      {users.length > 0 && (
        <Notice shape="warn">
          <p>
            Variables of {users.map(({ name }) => name).join(', ')} refer to it: it is refused until they do not any
            more.
          </p>
        </Notice>
      )}
      {backups?.length === 0 && (
        <Notice shape="warn">
          <p>It has no good backup: nothing brings this data back.</p>
        </Notice>
      )}
    </Confirm>
  );
}

function staysOf(count: number | undefined): string[] {
  if (count === undefined) return ['Its backups in their destinations'];
  if (count === 0) return [];
  return [count === 1 ? 'Its one good backup' : `Its ${count} good backups`];
}
