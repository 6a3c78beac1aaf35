import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { allProjects, allServers, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Form } from '../../parts/form.tsx';
import { Select, TextInput } from '../../parts/inputs.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { CustomControl, Values } from '../../parts/schema-form.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import type { BodyOf } from '../body-of.ts';
import { parametersIn, versionsIn } from '../database/engine-words.ts';
import { newDatabaseLayout } from '../database/form-layout.ts';
import { ParametersInput } from '../database/parameters-input.tsx';
import type { PageProps } from '../page.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';

/** Makes a database of a project, and starts it. */
export function NewDatabasePage({ params, query }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { store } = useConsole();
  const href = useHref();
  useList(allProjects, 'project');
  const servers = useList(allServers, 'server');
  const project = store.get('project', projectId);
  const fields = useBodyFields('post', '/api/v1/databases');
  const title = project?.display_name ?? project?.name ?? 'Project';
  return (
    <Page
      title="New database"
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        { label: title, href: href(['projects', projectId]) },
      ]}
    >
      {fields.error !== undefined && <ErrorBox error={fields.error} onRetry={fields.again} />}
      {servers.reading.state === 'ready' && servers.objects.length === 0 ? (
        <EmptyState
          title="No server yet"
          action={<LinkButton href={href(['servers'])}>Servers</LinkButton>}
          command="setpoint create server NAME"
        >
          Databases run on your own servers. Add one first: it is a machine with Docker on which the agent runs.
        </EmptyState>
      ) : fields.data === undefined || project === undefined ? (
        <Skeleton label="Reading what can be set" />
      ) : (
        <Creation
          projectId={projectId}
          projectName={project.name}
          hasDefaultServer={project.default_server_id !== null}
          environmentId={query.get('environment') ?? undefined}
          fields={fields.data}
        />
      )}
    </Page>
  );
}

interface CreationProps {
  readonly projectId: string;
  readonly projectName: string;
  readonly hasDefaultServer: boolean;
  readonly environmentId: string | undefined;
  readonly fields: readonly FieldSpec[];
}

function Creation({ projectId, projectName, hasDefaultServer, environmentId, fields }: CreationProps): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const rank = useRank(projectId);
  const environments = byName(
    useList(environmentsOf(projectId), 'environment').objects.filter(
      (it) => it.project_id === projectId && it.status === 'active',
    ),
  );
  const servers = byName(useList(allServers, 'server').objects.filter(({ status }) => status !== 'deleting'));
  const [onlyServer, ...otherServers] = servers;
  const start: Values = {
    project_id: projectId,
    type: 'postgres',
    ...(environmentId !== undefined && { environment_id: environmentId }),
  };
  const form = useForm(fields, start, async () => {
    const made = await store.answer('database', () =>
      // the fields are those of the schema of this body
      call(login, 'POST', '/api/v1/databases', { body: body as BodyOf<'createDatabase'> }),
    );
    router.leave(href(parts(made)));
  });
  const type = String(form.values['type']);
  // without a default server one has to be named; where there is one alone, it is that
  const server = form.values['server_id'] ?? (hasDefaultServer || otherServers.length > 0 ? undefined : onlyServer?.id);
  const body: Values = Object.fromEntries(
    Object.entries({ ...form.values, server_id: server }).filter(([, value]) => value !== undefined && value !== ''),
  );
  const isDirty = Object.keys(form.changed).some((name) => name !== 'environment_id');
  useUnsaved(isDirty && !form.busy, 'The database is not created yet. Leave it?');
  const why =
    whyBelow(rank, 'member') ?? (server === undefined && !hasDefaultServer ? 'Choose a server first' : undefined);
  const custom = useControls({ fields, type, environments, servers, server, hasDefaultServer });
  const command = [
    'setpoint create database',
    shellQuoted(typeof body['name'] === 'string' ? body['name'] : 'NAME'),
    `--project ${shellQuoted(projectName)}`,
    `--type ${type}`,
    ...(typeof body['version'] === 'string' ? [`--engine-version ${body['version']}`] : []),
    ...(body['connection_pooling'] === true ? ['--pooling'] : []),
    ...(body['require_tls'] === true ? ['--require-tls'] : []),
  ].join(' ');
  return (
    <Form
      label="New database"
      verb="Create database"
      busy={form.busy}
      why={why}
      error={form.error}
      onSubmit={form.submit}
      onCancel={() => router.go(href(['projects', projectId]))}
    >
      <SchemaForm
        fields={fields}
        layout={newDatabaseLayout}
        values={form.values}
        onChange={(next) =>
          // what is set of versions, parameters and connections is of one engine
          form.setValues(
            next['type'] === type
              ? next
              : {
                  ...next,
                  version: undefined,
                  parameters: undefined,
                  connection_pooling: undefined,
                  require_tls: undefined,
                },
          )
        }
        faults={form.faults}
        custom={custom}
      />
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, '/api/v1/databases'), body, secrets: ['password'] }}
        command={command}
      />
    </Form>
  );
}

interface ControlsProps {
  readonly fields: readonly FieldSpec[];
  readonly type: string;
  readonly environments: readonly { readonly id: string; readonly name: string }[];
  readonly servers: readonly { readonly id: string; readonly name: string }[];
  readonly server: unknown;
  readonly hasDefaultServer: boolean;
}

/** Controls for what depends on the engine, and for the place. */
function useControls(props: ControlsProps): Readonly<Record<string, CustomControl>> {
  const { fields, type, environments, servers, server, hasDefaultServer } = props;
  const helpOf = (name: string): string => fields.find((field) => field.name === name)?.help ?? '';
  const versions = versionsIn(helpOf('version')).get(type) ?? [];
  const parameters = parametersIn(helpOf('parameters')).get(type) ?? [];
  return {
    version: ({ control, value, onChange }) =>
      versions.length === 0 ? (
        <TextInput control={control} value={typeof value === 'string' ? value : ''} onInput={onChange} />
      ) : (
        <Select
          control={control}
          options={versions.map((one, at) => ({ value: one, label: at === 0 ? `${one}, the usual one` : one }))}
          value={typeof value === 'string' ? value : (versions[0] ?? '')}
          onChange={onChange}
        />
      ),
    parameters: ({ control, value, onChange }) => (
      <ParametersInput key={type} control={control} known={parameters} value={value} onChange={onChange} />
    ),
    environment_id: ({ control, value, onChange }) => (
      <Combobox
        control={control}
        options={environments.map(({ id, name }) => ({ value: id, label: name }))}
        value={typeof value === 'string' ? value : undefined}
        onChange={onChange}
        placeholder="The default one"
      />
    ),
    server_id: ({ control, onChange }) => (
      <Combobox
        control={control}
        options={servers.map(({ id, name }) => ({ value: id, label: name }))}
        value={typeof server === 'string' ? server : undefined}
        onChange={onChange}
        placeholder={hasDefaultServer ? 'The default one of the project' : 'Choose one'}
      />
    ),
  };
}
