import type { VNode } from 'preact';
import { list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import { byName } from '../../model.ts';
import { Combobox } from '../../parts/combobox.tsx';
import type { ControlProps } from '../../parts/field.tsx';
import { mostKept } from '../settings/kept-text.ts';

interface DestinationChoiceProps {
  readonly control: ControlProps;
  readonly value: string | undefined;
  readonly onChange: (id: string | undefined) => void;
}

/** Names of the destinations that the reader may see; members of projects see none. */
export function useDestinations(): readonly { readonly id: string; readonly name: string }[] {
  const { login } = useConsole();
  const found = useRead(
    () =>
      list(login, '/api/v1/settings/backup-destinations', mostKept).then(
        (all) => byName(all),
        () => [],
      ),
    [login.tenant],
  );
  return found.data ?? [];
}

/** A bucket that backups are kept in. */
export function DestinationChoice({ control, value, onChange }: DestinationChoiceProps): VNode {
  const destinations = useDestinations();
  return (
    <Combobox
      control={control}
      options={destinations.map(({ id, name, ...rest }) => ({
        value: id,
        label: name,
        ...('provider' in rest && typeof rest.provider === 'string' && { note: rest.provider }),
      }))}
      value={value}
      onChange={onChange}
      placeholder="The usual one"
      empty="You see no destination: the usual one is taken"
    />
  );
}
