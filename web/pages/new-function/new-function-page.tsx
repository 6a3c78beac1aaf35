import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { allProjects, allServers, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { Project } from '../../model.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { CodeInput, codeKeys } from '../../parts/code-input.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Form } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { FormLayout, Values } from '../../parts/schema-form.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import type { BodyOf } from '../body-of.ts';
import { newFunctionLayout } from '../function/form-layout.ts';
import { dependenciesHelp, isRuntime, isStarter, runtimes } from '../function/runtimes.ts';
import { triggerControls } from '../function/trigger-controls.tsx';
import { sentTrigger } from '../function/trigger-fields.ts';
import type { PageProps } from '../page.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';

/** Makes a function of a project; it is deployed from its page. */
export function NewFunctionPage({ params, query }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { store } = useConsole();
  const href = useHref();
  useList(allProjects, 'project');
  const servers = useList(allServers, 'server');
  const project = store.get('project', projectId);
  const fields = useBodyFields('post', '/api/v1/functions');
  const title = project?.display_name ?? project?.name ?? 'Project';
  return (
    <Page
      title="New function"
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
          Functions run on your own servers. Add one first: it is a machine with Docker on which the agent runs.
        </EmptyState>
      ) : fields.data === undefined || project === undefined ? (
        <Skeleton label="Reading what can be set" />
      ) : (
        <Creation project={project} environmentId={query.get('environment') ?? undefined} fields={fields.data} />
      )}
    </Page>
  );
}

interface CreationProps {
  readonly project: Project;
  readonly environmentId: string | undefined;
  readonly fields: readonly FieldSpec[];
}

function Creation({ project, environmentId, fields }: CreationProps): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const parts = useFunctionParts();
  const rank = useRank(project.id);
  const hasDefault = project.default_server_id !== null;
  const environments = byName(
    useList(environmentsOf(project.id), 'environment').objects.filter(
      (it) => it.project_id === project.id && it.status === 'active',
    ),
  );
  const servers = byName(useList(allServers, 'server').objects.filter(({ status }) => status !== 'deleting'));
  const [onlyServer, ...otherServers] = servers;
  const start: Values = {
    project_id: project.id,
    runtime: 'node20',
    code: runtimes.node20.starter,
    trigger_type: 'http',
    ...(environmentId !== undefined && { environment_id: environmentId }),
  };
  const form = useForm(fields, start, async () => {
    const made = await store.answer('function', () =>
      // the fields are those of the schema of this body
      call(login, 'POST', '/api/v1/functions', { body: body as BodyOf<'createFunction'> }),
    );
    router.leave(href(parts(made, 'code')));
  });
  const runtime = isRuntime(form.values['runtime']) ? form.values['runtime'] : 'node20';
  // without a default server one has to be named; where there is one alone, it is that
  const server = form.values['server_id'] ?? (hasDefault || otherServers.length > 0 ? undefined : onlyServer?.id);
  const onServer = servers.find(({ id }) => id === server)?.name;
  const body: Values = Object.fromEntries(
    Object.entries(sentTrigger({ ...form.values, server_id: server }, form.values)).filter(
      ([, value]) => value !== undefined && value !== '' && value !== null,
    ),
  );
  const isDirty = Object.keys(form.changed).some((name) => name !== 'environment_id');
  useUnsaved(isDirty && !form.busy, 'The function is not created yet. Leave it?');
  const why = whyBelow(rank, 'member') ?? (server === undefined && !hasDefault ? 'Choose a server first' : undefined);
  const change = (next: Values): void => {
    const { runtime: chosen, code } = next;
    // what somebody has written stays; the code to begin with is that of the runtime
    const begins = isRuntime(chosen) && chosen !== runtime && isStarter(code);
    form.setValues(begins ? { ...next, code: runtimes[chosen].starter } : next);
  };
  const layout: FormLayout = {
    ...newFunctionLayout,
    words: {
      ...newFunctionLayout.words,
      code: { label: 'Code', help: `${runtimes[runtime].handler} ${codeKeys}` },
      dependencies: { label: 'Dependencies', help: dependenciesHelp(runtime) },
    },
  };
  return (
    <Form
      label="New function"
      isWide
      verb="Create function"
      busy={form.busy}
      why={why}
      error={form.error}
      onSubmit={form.submit}
      onCancel={() => router.go(href(['projects', project.id]))}
    >
      <SchemaForm
        fields={fields}
        layout={layout}
        values={form.values}
        onChange={change}
        faults={form.faults}
        custom={{
          ...triggerControls(form.values),
          code: ({ control, value, onChange }) => (
            <CodeInput control={control} value={typeof value === 'string' ? value : ''} lines={14} onInput={onChange} />
          ),
          dependencies: ({ control, value, onChange }) => (
            <CodeInput control={control} value={typeof value === 'string' ? value : ''} lines={3} onInput={onChange} />
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
              placeholder={hasDefault ? 'The default one of the project' : 'Choose one'}
            />
          ),
        }}
      />
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, '/api/v1/functions'), body }}
        command={[
          'setpoint create function',
          shellQuoted(typeof body['name'] === 'string' ? body['name'] : 'NAME'),
          `--project ${shellQuoted(project.name)}`,
          ...(onServer === undefined ? [] : [`--on ${shellQuoted(onServer)}`]),
          `--runtime ${runtime}`,
          '--file FILE',
        ].join(' ')}
      />
    </Form>
  );
}
