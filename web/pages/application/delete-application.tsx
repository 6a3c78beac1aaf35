import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Application } from '../../model.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { shellQuoted } from '../../parts/request-text.ts';

/** Asks before an application is deleted; its volumes and the databases that it uses stay. */
export function DeleteApplication({ it, onClose }: { it: Application; onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const used = useRead(
    () => call(login, 'GET', '/api/v1/applications/{id}/dependencies', { path: { id: it.id } }),
    [it.id],
  ).data;
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('application', () => call(login, 'DELETE', '/api/v1/applications/{id}', { path: { id: it.id } })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[
        `The application with its ${it.replicas === 1 ? 'instance' : `${it.replicas} instances`}`,
        'Its deployments, logs and variables',
        ...it.domains.map(({ host }) => `The address ${host}`),
      ]}
      stays={[
        ...(used?.volumes ?? []).map(({ name }) => `The volume ${name} with its data`),
        ...(used?.databases ?? []).map(({ name }) => `The database ${name}`),
      ]}
      type={(used?.volumes.length ?? 0) > 0 ? it.name : undefined}
      command={`setpoint delete application ${shellQuoted(it.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
