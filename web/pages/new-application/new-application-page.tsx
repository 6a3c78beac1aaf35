import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allProjects, allServers, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { Field } from '../../parts/field.tsx';
import type { ControlProps } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Checkbox, MemoryInput, Radios } from '../../parts/inputs.tsx';
import { Page } from '../../parts/page.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { GitCredentialChoice, RegistryChoice } from '../application/credential-choice.tsx';
import { parsed } from '../application/env-text.ts';
import type { PageProps } from '../page.ts';
import { shownPath } from '../served-fields.ts';
import { ComposeCheck } from './compose-check.tsx';
import { bodyOf, emptyDraft, fieldNames, sources, suggestedName } from './draft.ts';
import type { Draft, Source } from './draft.ts';

const sourceWords: Readonly<Record<Source, string>> = {
  git: 'A git repository, which is built',
  image: 'An image, which is pulled',
  compose: 'A compose file',
};

/** Makes an application from a repository, an image or a compose file, and deploys it. */
export function NewApplicationPage({ params, query }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { login, store, router } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const rank = useRank(projectId);
  const act = useAct();
  useList(allProjects, 'project');
  const project = store.get('project', projectId);
  const environments = byName(
    useList(environmentsOf(projectId), 'environment').objects.filter(
      (it) => it.project_id === projectId && it.status === 'active',
    ),
  );
  const servers = useList(allServers, 'server');
  const usable = byName(servers.objects.filter(({ status }) => status !== 'deleting'));
  const asked = sources.find((one) => one === query.get('source'));
  const [draft, setDraft] = useState<Draft>({
    ...emptyDraft,
    source: asked ?? 'git',
    environment: query.get('environment') ?? '',
  });
  // a project without a default server needs one to be named; where there is one alone, it is that
  const server = draft.server !== '' || project?.default_server_id !== null ? draft.server : onlyOf(usable);
  const [isNamed, setNamed] = useState(false);
  const [deploys, setDeploys] = useState(true);
  const set = (change: Partial<Draft>): void => {
    act.clear();
    const next = { ...draft, ...change };
    setDraft(isNamed || 'name' in change ? next : { ...next, name: suggestedName(next) });
  };
  const env = parsed(draft.env);
  const faults: Partial<Record<keyof Draft, string>> = {
    ...faultsOf(act.error?.details ?? []),
    ...(env.faults[0] !== undefined && { env: `Line ${env.faults[0].line}: ${env.faults[0].message}` }),
  };
  const elsewhere =
    act.error?.details?.every(({ field }) => fieldNames[field.split('.')[0] ?? ''] === undefined) ?? true;
  const isDirty = draft.name !== '' || draft.image !== '' || draft.repository !== '' || draft.compose !== '';
  useEffect(() => {
    router.protect(isDirty && !act.busy ? () => confirm('The application is not created yet. Leave it?') : undefined);
    return () => router.protect(undefined);
  }, [isDirty, act.busy]);

  const body = bodyOf({ ...draft, server }, projectId, env.variables);
  const create = async (): Promise<void> => {
    await act.run(async () => {
      const made = await store.answer('application', () => call(login, 'POST', '/api/v1/applications', { body }));
      if (deploys)
        await store.answer('deployment', () =>
          call(login, 'POST', '/api/v1/applications/{id}/deploy', { path: { id: made.id } }),
        );
      router.leave(href(parts(made)));
    });
  };
  const why =
    whyBelow(rank, 'member') ??
    whyIncomplete(draft) ??
    (server === '' && project?.default_server_id === null ? 'Choose a server first' : undefined) ??
    (env.faults.length > 0 ? 'Mend the variables first' : undefined);

  if (servers.reading.state === 'ready' && usable.length === 0)
    return (
      <Page
        title="New application"
        crumbs={[{ label: project?.name ?? 'Project', href: href(['projects', projectId]) }]}
      >
        <EmptyState
          title="No server yet"
          action={<LinkButton href={href(['servers'])}>Servers</LinkButton>}
          command="setpoint create server NAME"
        >
          Applications run on your own servers. Add one first: it is a machine with Docker on which the agent runs.
        </EmptyState>
      </Page>
    );
  const text =
    (name: keyof Draft, placeholder = '') =>
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
  return (
    <Page
      title="New application"
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        { label: project?.display_name ?? project?.name ?? 'Project', href: href(['projects', projectId]) },
      ]}
    >
      <Form
        label="New application"
        verb={deploys ? 'Create and deploy' : 'Create'}
        busy={act.busy}
        why={why}
        error={elsewhere ? act.error : undefined}
        onSubmit={() => {
          if (Object.keys(faults).length > 0) return false;
          void create();
          return true;
        }}
        onCancel={() => router.go(href(['projects', projectId]))}
      >
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
                {text('image', 'ghcr.io/owner/name:tag')}
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
                {text('repository', 'https://git.example.com/shop.git')}
              </Field>
              <Field label="Branch" error={faults.branch} help="Or a tag, or all digits of the id of a commit">
                {text('branch')}
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
                {text('dockerfile', 'Dockerfile')}
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
              <ComposeCheck content={draft.compose} env={env.variables} />
            </>
          )}
        </fieldset>
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
                  setNamed(currentTarget.value !== '');
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
                <option value="">
                  {project?.default_server_id === null ? 'Choose a server' : 'The default one of the project'}
                </option>
                {usable.map((one) => (
                  <option key={one.id} value={one.id}>
                    {one.name}
                    {one.agent_status === 'connected' ? '' : ` (${one.agent_status})`}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </fieldset>
        {draft.source !== 'compose' && (
          <fieldset class="form-group">
            <legend>Running</legend>
            <Field label="Port" error={faults.port} isOptional help="The port in the container that requests are for">
              {text('port', '8080')}
            </Field>
            <Field
              label="Path that shows it is ready"
              error={faults.health}
              isOptional
              help="Requests go to an instance once this path answers"
            >
              {text('health', '/healthz')}
            </Field>
            <Field label="Instances" error={faults.replicas}>
              {text('replicas')}
            </Field>
            <Field label="Memory" error={faults.memory} isOptional help="What an instance may use, such as 512m">
              {(control) => (
                <MemoryInput control={control} value={draft.memory} onInput={(memory) => set({ memory })} />
              )}
            </Field>
          </fieldset>
        )}
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
        <Checkbox checked={deploys} onChange={setDeploys}>
          Deploy it at once
        </Checkbox>
        <ShowAs
          origin={location.origin}
          request={{
            method: 'POST',
            path: shownPath(login, '/api/v1/applications'),
            body,
            secrets: Object.keys(env.variables),
          }}
        />
      </Form>
    </Page>
  );
}

function onlyOf(servers: readonly { id: string }[]): string {
  const [first, ...others] = servers;
  return first === undefined || others.length > 0 ? '' : first.id;
}

function defaultName(environments: readonly { name: string; is_default: boolean }[]): string {
  const found = environments.find(({ is_default: isDefault }) => isDefault);
  return found === undefined ? '' : `: ${found.name}`;
}

function whyIncomplete({ source, image, repository, compose, name }: Draft): string | undefined {
  if (source === 'image' && image.trim() === '') return 'Enter an image first';
  if (source === 'git' && repository.trim() === '') return 'Enter a repository first';
  if (source === 'compose' && compose.trim() === '') return 'Enter a compose file first';
  return name.trim() === '' ? 'Give it a name first' : undefined;
}

function faultsOf(details: readonly { field: string; message: string }[]): Partial<Record<keyof Draft, string>> {
  return Object.fromEntries(
    details.flatMap(({ field, message }) => {
      const name = fieldNames[field.split('.')[0] ?? ''];
      return name === undefined ? [] : [[name, message]];
    }),
  );
}
