import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { components } from '../../api-types.d.ts';
import { call, list } from '../../api.ts';
import { allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Command } from '../../parts/command.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Checkbox, Radios, TextInput } from '../../parts/inputs.tsx';
import { Shape } from '../../parts/shape.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { shownPath } from '../served-fields.ts';

type Key = components['schemas']['ServiceKey'];
type Scope = NonNullable<Key['scopes']>[number];

const mostKeys = 500;
const dayMs = 86_400_000;
const scopes: readonly { readonly scope: Scope; readonly note: string }[] = [
  { scope: 'read', note: 'see what you see; secrets are masked' },
  { scope: 'deploy', note: 'also deploy, start, stop and scale' },
  { scope: 'write', note: 'also make, change and delete workloads' },
  { scope: 'admin', note: 'also accounts, keys, servers, members and whole projects' },
];
const terms = ['30', '90', '365', 'never'] as const;

/** Keys with which programs act as the reader, within scopes and perhaps one project. */
export function ServiceKeys(): VNode {
  const { login, store } = useConsole();
  const href = useHref();
  const keys = useRead(() => list(login, '/api/v1/settings/service-keys', mostKeys), []);
  const [open, setOpen] = useState<Key | 'new'>();
  const add = (
    <Button tone="primary" icon="plus" onClick={() => setOpen('new')}>
      New key
    </Button>
  );
  const closed = (): void => {
    setOpen(undefined);
    keys.again();
  };
  return (
    <Card title="Service keys" actions={add}>
      {keys.error !== undefined && <ErrorBox error={keys.error} onRetry={keys.again} />}
      {keys.data === undefined && keys.error === undefined && <Skeleton label="Reading keys" />}
      {keys.data !== undefined && (
        <Table
          label="Service keys"
          rows={keys.data}
          keyOf={({ id }) => id}
          empty={
            <EmptyState title="No key yet" command="setpoint keys create ci --scope deploy">
              A key lets a program act as you: a pipeline that deploys, or the command line on another machine.
            </EmptyState>
          }
          columns={[
            {
              id: 'name',
              title: 'Name',
              isPrimary: true,
              sortBy: ({ name }) => name,
              cell: ({ name, prefix }) => (
                <span class="row">
                  <span class="strong">{name}</span>
                  <code class="quiet">{prefix}…</code>
                </span>
              ),
            },
            { id: 'scopes', title: 'May', cell: (key) => key.scopes?.join(', ') ?? 'everything' },
            {
              id: 'project',
              title: 'In',
              cell: ({ project_id: id }) =>
                id === null ? (
                  'all projects'
                ) : (
                  <a href={href(['projects', id])}>{store.get('project', id)?.name ?? `${id.slice(0, 8)}…`}</a>
                ),
            },
            {
              id: 'expires',
              title: 'Ends',
              cell: ({ expires_at: at }) =>
                at === null ? (
                  <span class="status">
                    <Shape of="warn" />
                    never
                  </span>
                ) : (
                  <Time at={at} />
                ),
              sortBy: ({ expires_at: at }) => at ?? '',
            },
            {
              id: 'used',
              title: 'Used',
              cell: ({ last_used_at: at }) => (at === null ? 'never' : <Time at={at} />),
              sortBy: ({ last_used_at: at }) => at ?? '',
            },
            {
              id: 'revoke',
              title: 'Actions',
              isNarrow: true,
              isBare: true,
              cell: (key) => (
                <Button isSmall onClick={() => setOpen(key)}>
                  Revoke<span class="sr-only"> {key.name}</span>
                </Button>
              ),
            },
          ]}
        />
      )}
      {open === 'new' && <NewKey onClose={closed} />}
      {open !== undefined && open !== 'new' && <Revoke of={open} onClose={closed} />}
    </Card>
  );
}

function NewKey({ onClose }: { readonly onClose: () => void }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const projects = byName(useList(allProjects, 'project').objects);
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState<readonly Scope[]>(['deploy']);
  const [projectId, setProjectId] = useState<string>();
  const [term, setTerm] = useState<string>('90');
  const [made, setMade] = useState<string>();
  const [isStored, setStored] = useState(false);
  const body = (): { name: string; scopes: Scope[]; project_id: string | null; expires_at: string | null } => ({
    name: name.trim(),
    scopes: [...chosen],
    project_id: projectId ?? null,
    expires_at: term === 'never' ? null : new Date(Date.now() + Number(term) * dayMs).toISOString(),
  });
  const create = async (): Promise<void> => {
    await act.run(async () => {
      const { key } = await call(login, 'POST', '/api/v1/settings/service-keys', { body: body() });
      setMade(key);
    });
  };
  if (made !== undefined)
    return (
      <Drawer
        title={`The key ${name}`}
        onClose={onClose}
        dirty={!isStored}
        foot={
          <Button tone="primary" onClick={onClose} why={isStored ? undefined : 'Say first that it is stored'}>
            Done
          </Button>
        }
      >
        <p>This is the only time that the key is shown.</p>
        <Command text={made} label="Copy key" />
        <Checkbox checked={isStored} onChange={setStored}>
          I have stored it
        </Checkbox>
      </Drawer>
    );
  const why = name.trim() === '' ? 'Give it a name first' : chosen.length === 0 ? 'Choose what it may do' : undefined;
  const wrong = act.error?.details?.find(({ field }) => field === 'name')?.message;
  return (
    <Drawer
      title="New service key"
      onClose={onClose}
      dirty={name !== ''}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" type="submit" form="new-key" busy={act.busy} why={why}>
            Make the key
          </Button>
        </>
      }
    >
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      <form
        id="new-key"
        class="form"
        aria-label="New service key"
        onSubmit={(event) => {
          event.preventDefault();
          if (why === undefined) void create();
        }}
      >
        <Field label="Name" help="What uses it, such as ci." error={wrong} isRequired>
          {(control) => <TextInput control={control} value={name} onInput={setName} placeholder="ci" />}
        </Field>
        <FieldGroup label="It may" help="Never more than you may yourself.">
          <div class="choices-down">
            {scopes.map(({ scope, note }) => (
              <Checkbox
                key={scope}
                checked={chosen.includes(scope)}
                onChange={(checked) =>
                  setChosen(
                    scopes.map((one) => one.scope).filter((one) => (one === scope ? checked : chosen.includes(one))),
                  )
                }
              >
                <span class="strong">{scope}</span> <span class="field-help">{note}</span>
              </Checkbox>
            ))}
          </div>
        </FieldGroup>
        <Field label="Only in the project" isOptional>
          {(control) => (
            <Combobox
              control={control}
              options={projects.map(({ id, name: own, display_name: title }) => ({ value: id, label: title ?? own }))}
              value={projectId}
              onChange={setProjectId}
              placeholder="All that you may see"
            />
          )}
        </Field>
        <FieldGroup label="Ends after">
          <Radios
            name="term"
            options={terms.map((one) => ({ value: one, label: one === 'never' ? 'Never' : `${one} days` }))}
            value={term}
            onChange={setTerm}
          />
        </FieldGroup>
      </form>
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, '/api/v1/settings/service-keys'), body: body() }}
      />
    </Drawer>
  );
}

function Revoke({ of, onClose }: { readonly of: Key; readonly onClose: () => void }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const revoke = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'DELETE', '/api/v1/settings/service-keys/{id}', { path: { id: of.id } }),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Revoke the key ${of.name}`}
      verb="Revoke it"
      goes={[`The key ${of.name} (${of.prefix}…)`, 'Keys that it made']}
      stays={['What was made and changed with it']}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void revoke()}
      onClose={onClose}
    />
  );
}
