import type { VNode } from 'preact';
import { list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import type { ControlProps } from '../../parts/field.tsx';

interface ChoiceProps {
  readonly control: ControlProps;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}

interface Named {
  readonly id: string;
  readonly name: string;
}

/** Chooses one of a tenant's credentials by its name. Where they cannot be read, the id that is set stays. */
function Choice({ control, value, onChange, of, none }: ChoiceProps & { of: readonly Named[]; none: string }): VNode {
  const chosen = typeof value === 'string' ? value : '';
  return (
    <select
      {...control}
      class="input"
      value={chosen}
      onChange={({ currentTarget }) => onChange(currentTarget.value === '' ? null : currentTarget.value)}
    >
      <option value="">{none}</option>
      {of.map((one) => (
        <option key={one.id} value={one.id}>
          {one.name}
        </option>
      ))}
      {chosen !== '' && !of.some(({ id }) => id === chosen) && <option value={chosen}>{chosen}</option>}
    </select>
  );
}

const most = 500;

export function GitCredentialChoice(props: ChoiceProps): VNode {
  const { login } = useConsole();
  const { data = [] } = useRead(() => list(login, '/api/v1/settings/git-credentials', most), []);
  return <Choice {...props} of={data} none="None: it is public" />;
}

export function RegistryChoice(props: ChoiceProps): VNode {
  const { login } = useConsole();
  const { data = [] } = useRead(() => list(login, '/api/v1/settings/registries', most), []);
  return <Choice {...props} of={data} none="None: it is public" />;
}
