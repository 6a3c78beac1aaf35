import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { Fn } from './tab-props.ts';

/** Asks before a function goes: its code goes with it, what its variables refer to stays. */
export function DeleteFunction({ it, onClose }: { readonly it: Fn; readonly onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const path = { id: it.id };
  const used = useRead(() => call(login, 'GET', '/api/v1/functions/{id}/dependencies', { path }), [it.id]).data;
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('function', () => call(login, 'DELETE', '/api/v1/functions/{id}', { path })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[
        `The function ${it.name} with its code and its variables`,
        'Its versions with their images, its executions and its logs',
        ...(it.schedule === null ? [] : [`Its schedule ${it.schedule}`]),
        ...(it.exposed_port === null ? [] : [`Port ${it.exposed_port} of its server`]),
      ]}
      stays={[
        ...(used?.applications ?? []).map(({ name }) => `The application ${name}`),
        ...(used?.databases ?? []).map(({ name }) => `The database ${name} with its data`),
      ]}
      type={it.name}
      command={`setpoint delete function ${shellQuoted(it.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
