import { list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import { Combobox } from '../../parts/combobox.tsx';
import type { CustomControl } from '../../parts/schema-form.tsx';
import { AllowedProjects } from './allowed-projects.tsx';

const mostKeys = 500;

/** Controls of the form of a server that choose among other objects. */
export function useServerControls(): Readonly<Record<string, CustomControl>> {
  const { login } = useConsole();
  const keys = useRead(() => list(login, '/api/v1/settings/ssh-keys', mostKeys), []);
  const sshKey: CustomControl = ({ control, value, onChange }) => (
    <Combobox
      control={control}
      options={(keys.data ?? []).map(({ id, name, type }) => ({ value: id, label: name, note: type }))}
      value={typeof value === 'string' ? value : undefined}
      onChange={(next) => onChange(next ?? null)}
      placeholder="None: the command is run by hand"
      empty="No SSH key is kept: make one in the settings"
    />
  );
  return {
    sshKeyId: sshKey,
    ssh_key_id: sshKey,
    allowed_projects: ({ value, onChange }) => <AllowedProjects value={value} onChange={onChange} />,
  };
}
