import { allServers, environmentsOf } from '../../frame/collections.ts';
import { useList } from '../../frame/context.ts';
import { byName } from '../../model.ts';
import { Combobox } from '../../parts/combobox.tsx';
import type { CustomControl } from '../../parts/schema-form.tsx';
import { GitCredentialChoice } from '../application/credential-choice.tsx';

interface Choices {
  readonly controls: Readonly<Record<string, CustomControl>>;
  /** The names of what can be chosen, by id. */
  readonly names: ReadonlyMap<string, string>;
}

/** The controls of a sync that choose something of its project. `usual`: what is taken where nothing is chosen. */
export function useSyncControls(
  projectId: string,
  usual: { readonly environment: string; readonly server: string },
): Choices {
  const environments = byName(
    useList(environmentsOf(projectId), 'environment').objects.filter(
      (it) => it.project_id === projectId && it.status === 'active',
    ),
  );
  const servers = byName(useList(allServers, 'server').objects.filter(({ status }) => status !== 'deleting'));
  const choice =
    (of: readonly { readonly id: string; readonly name: string }[], placeholder: string): CustomControl =>
    ({ control, value, onChange }) => (
      <Combobox
        control={control}
        options={of.map(({ id, name }) => ({ value: id, label: name }))}
        value={typeof value === 'string' ? value : undefined}
        onChange={onChange}
        placeholder={placeholder}
      />
    );
  return {
    controls: {
      environment_id: choice(environments, usual.environment),
      server_id: choice(servers, usual.server),
      git_credential_id: (given) => <GitCredentialChoice {...given} />,
    },
    names: new Map([...environments, ...servers].map(({ id, name }) => [id, name])),
  };
}
