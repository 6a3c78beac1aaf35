import type { VNode } from 'preact';
import { Field } from '../../parts/field.tsx';
import type { ControlProps } from '../../parts/field.tsx';
import { Checkbox, MemoryInput, Radios } from '../../parts/inputs.tsx';
import { GitCredentialChoice, RegistryChoice } from '../application/credential-choice.tsx';
import { ComposeCheck } from './compose-check.tsx';
import { sources } from './draft.ts';
import type { Draft, Source } from './draft.ts';

interface FieldsProps {
  draft: Draft;
  faults: Partial<Record<keyof Draft, string>>;
  set(this: void, change: Partial<Draft>): void;
}

const sourceWords: Readonly<Record<Source, string>> = {
  git: 'A git repository, which is built',
  image: 'An image, which is pulled',
  compose: 'A compose file',
};

/** A line of text that is a part of the draft. */
const line =
  ({ draft, set }: Pick<FieldsProps, 'draft' | 'set'>, name: keyof Draft, placeholder = '') =>
  (control: ControlProps) => (
    <input
      {...control}
      class="input"
      value={String(draft[name])}
      placeholder={placeholder}
      autocomplete="off"
      spellcheck={false}
      onInput={({ currentTarget }) => set({ [name]: currentTarget.value })}
    />
  );

/** Where the application comes from. */
export function SourceFields({
  variables,
  ...props
}: FieldsProps & { variables: Readonly<Record<string, string>> }): VNode {
  const { draft, faults, set } = props;
  return (
    <fieldset class="form-group">
      <legend>From</legend>
      <Radios
        name="source"
        options={sources.map((value) => ({ value, label: sourceWords[value] }))}
        value={draft.source}
        onChange={(value) => set({ source: value as Source })} // one of the options
      />
      {draft.source === 'image' && (
        <>
          <Field label="Image" error={faults.image} isRequired>
            {line(props, 'image', 'ghcr.io/owner/name:tag')}
          </Field>
          <Field label="Registry" error={faults.registry} help="Whose credentials it is pulled with">
            {(control) => (
              <RegistryChoice
                control={control}
                value={draft.registry}
                onChange={(value) => set({ registry: typeof value === 'string' ? value : null })}
              />
            )}
          </Field>
        </>
      )}
      {draft.source === 'git' && (
        <>
          <Field label="Repository" error={faults.repository} isRequired>
            {line(props, 'repository', 'https://git.example.com/shop.git')}
          </Field>
          <Field label="Branch" error={faults.branch} help="Or a tag, or all digits of the id of a commit">
            {line(props, 'branch')}
          </Field>
          <Field label="Git credential" error={faults.credential} help="What a private repository is read with">
            {(control) => (
              <GitCredentialChoice
                control={control}
                value={draft.credential}
                onChange={(value) => set({ credential: typeof value === 'string' ? value : null })}
              />
            )}
          </Field>
          <Field
            label="Dockerfile"
            error={faults.dockerfile}
            help="Its path in the repository; auto: one is generated from what the repository declares"
          >
            {line(props, 'dockerfile', 'Dockerfile')}
          </Field>
          <Checkbox checked={draft.autodeploy} onChange={(autodeploy) => set({ autodeploy })}>
            Deploy when the branch changes
          </Checkbox>
        </>
      )}
      {draft.source === 'compose' && (
        <>
          <Field label="Compose file" error={faults.compose} isRequired>
            {(control) => (
              <textarea
                {...control}
                class="input"
                rows={14}
                spellcheck={false}
                value={draft.compose}
                placeholder={'services:\n  web:\n    image: nginx:1.29\n    ports: ["80"]'}
                onInput={({ currentTarget }) => set({ compose: currentTarget.value })}
              />
            )}
          </Field>
          <ComposeCheck content={draft.compose} env={variables} />
        </>
      )}
    </fieldset>
  );
}

interface Place {
  environments: readonly { id: string; name: string; is_default: boolean }[];
  servers: readonly { id: string; name: string; agent_status: string }[];
  server: string;
  /** The project has a default server. */
  hasDefault: boolean;
  onName(this: void, name: string): void;
}

/** How it is called, and where it runs. */
export function PlaceFields({
  draft,
  faults,
  set,
  environments,
  servers,
  server,
  hasDefault,
  onName,
}: FieldsProps & Place): VNode {
  return (
    <fieldset class="form-group">
      <legend>Name and place</legend>
      <Field label="Name" error={faults.name} isRequired>
        {(control) => (
          <input
            {...control}
            class="input"
            value={draft.name}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => {
              onName(currentTarget.value);
              set({ name: currentTarget.value });
            }}
          />
        )}
      </Field>
      <Field label="Environment" error={faults.environment}>
        {(control) => (
          <select
            {...control}
            class="input"
            value={draft.environment}
            onChange={({ currentTarget }) => set({ environment: currentTarget.value })}
          >
            <option value="">The default one{defaultName(environments)}</option>
            {environments.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Server" error={faults.server}>
        {(control) => (
          <select
            {...control}
            class="input"
            value={server}
            onChange={({ currentTarget }) => set({ server: currentTarget.value })}
          >
            <option value="">{hasDefault ? 'The default one of the project' : 'Choose a server'}</option>
            {servers.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
                {one.agent_status === 'connected' ? '' : ` (${one.agent_status})`}
              </option>
            ))}
          </select>
        )}
      </Field>
    </fieldset>
  );
}

/** How its instances run. */
export function RunFields(props: FieldsProps): VNode {
  const { draft, faults, set } = props;
  return (
    <fieldset class="form-group">
      <legend>Running</legend>
      <Field label="Port" error={faults.port} isOptional help="The port in the container that requests are for">
        {line(props, 'port', '8080')}
      </Field>
      <Field
        label="Path that shows it is ready"
        error={faults.health}
        isOptional
        help="Requests go to an instance once this path answers"
      >
        {line(props, 'health', '/healthz')}
      </Field>
      <Field label="Instances" error={faults.replicas}>
        {line(props, 'replicas')}
      </Field>
      <Field label="Memory" error={faults.memory} isOptional help="What an instance may use, such as 512m">
        {(control) => <MemoryInput control={control} value={draft.memory} onInput={(memory) => set({ memory })} />}
      </Field>
    </fieldset>
  );
}

export function VariableFields({ draft, faults, set }: FieldsProps): VNode {
  return (
    <details class="details" open={faults.env !== undefined}>
      <summary>Environment variables</summary>
      <Field label="Variables" error={faults.env} isOptional help="As a .env file has them, one NAME=value a line">
        {(control) => (
          <textarea
            {...control}
            class="input"
            rows={6}
            spellcheck={false}
            autocomplete="off"
            value={draft.env}
            onInput={({ currentTarget }) => set({ env: currentTarget.value })}
          />
        )}
      </Field>
    </details>
  );
}

function defaultName(environments: readonly { name: string; is_default: boolean }[]): string {
  const found = environments.find(({ is_default: isDefault }) => isDefault);
  return found === undefined ? '' : `: ${found.name}`;
}
