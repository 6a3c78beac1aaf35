import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { TemplateInstance } from './tab-props.ts';
import type { Child } from './wave-steps.ts';

/** Asks before an instance goes: with its data, or leaving volumes and databases behind. */
export function DeleteInstance({
  it,
  onClose,
}: {
  readonly it: TemplateInstance;
  readonly onClose: () => void;
}): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const [keepsData, setKeepsData] = useState(true);
  const made = it.children.filter(({ state }) => state !== 'waiting' && state !== 'gone');
  const withData = made.filter(({ kind }) => kind !== 'application');
  const textOf = ({ kind, name }: Child): string =>
    kind === 'application'
      ? `Application ${name}`
      : `${kind === 'database' ? 'Database' : 'Volume'} ${name} with its data`;
  const goes = made.filter(({ kind }) => kind === 'application' || !keepsData);
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('template_instance', () =>
        call(login, 'DELETE', '/api/v1/template-instances/{id}', {
          path: { id: it.id },
          query: { keep_data: keepsData ? 'true' : 'false' },
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete instance ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[`The instance ${it.name}`, ...goes.map(textOf)]}
      stays={[
        ...(keepsData ? withData.map(textOf) : ['Backups in their destinations, as long as they are kept']),
        `The template ${it.template_name}`,
      ]}
      type={!keepsData && withData.length > 0 ? it.name : undefined}
      command={`setpoint delete instance ${shellQuoted(it.name)}${keepsData ? ' --keep-data' : ''}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    >
      {withData.length > 0 && (
        <Checkbox checked={keepsData} onChange={setKeepsData}>
          Keep volumes and databases: they then belong to nobody
        </Checkbox>
      )}
    </Confirm>
  );
}
