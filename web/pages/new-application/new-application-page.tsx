import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
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
import { Form } from '../../parts/form.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { Page } from '../../parts/page.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { parsed } from '../application/env-text.ts';
import type { PageProps } from '../page.ts';
import { shownPath } from '../served-fields.ts';
import { notDeployed } from './not-deployed.ts';
import { bodyOf, emptyDraft, fieldNames, sources, suggestedName } from './draft.ts';
import type { Draft } from './draft.ts';
import { PlaceFields, RunFields, SourceFields, VariableFields } from './draft-fields.tsx';

/** Makes an application from a repository, an image or a compose file, and deploys it. */
export function NewApplicationPage({ params, query }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { login, store, router, messages } = useConsole();
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
  const [draft, setDraft] = useState<Draft>(() => draftOf(query));
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
  const faults = faultsOf(act.error?.details, env.faults[0]);
  const isDirty = hasContent(draft);
  useUnsaved(isDirty && !act.busy, 'The application is not created yet. Leave it?');

  const body = bodyOf({ ...draft, server }, projectId, env.variables);
  const create = async (): Promise<void> => {
    await act.run(async () => {
      const made = await store.answer('application', () => call(login, 'POST', '/api/v1/applications', { body }));
      // it is there now: what is wrong with its deployment is no matter of this form
      if (deploys)
        await store
          .answer('deployment', () =>
            call(login, 'POST', '/api/v1/applications/{id}/deploy', { path: { id: made.id } }),
          )
          .catch((failure: unknown) => messages.say(notDeployed(made.name, failure), 'bad'));
      router.leave(href(parts(made)));
    });
  };
  const why =
    whyBelow(rank, 'member') ??
    whyIncomplete(draft, {
      needsServer: server === '' && project?.default_server_id === null,
      hasFaults: env.faults.length > 0,
    });

  if (servers.reading.state === 'ready' && usable.length === 0)
    return (
      <WithoutServer
        label={projectName(project)}
        projectHref={href(['projects', projectId])}
        serversHref={href(['servers'])}
      />
    );
  const fields = { draft, faults, set };
  return (
    <Page
      title="New application"
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        { label: projectName(project), href: href(['projects', projectId]) },
      ]}
    >
      <Form
        label="New application"
        verb={deploys ? 'Create and deploy' : 'Create'}
        busy={act.busy}
        why={why}
        error={isElsewhere(act.error?.details) ? act.error : undefined}
        onSubmit={() => {
          // a fault that the server told may be gone by now
          if (env.faults.length > 0) return false;
          void create();
          return true;
        }}
        onCancel={() => router.go(href(['projects', projectId]))}
      >
        <SourceFields {...fields} variables={env.variables} />
        <PlaceFields
          {...fields}
          environments={environments}
          servers={usable}
          server={server}
          hasDefault={project?.default_server_id !== null}
          onName={(name) => setNamed(name !== '')}
        />
        {draft.source !== 'compose' && <RunFields {...fields} />}
        <VariableFields {...fields} />
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

function draftOf(query: URLSearchParams): Draft {
  const asked = sources.find((one) => one === query.get('source'));
  return { ...emptyDraft, source: asked ?? 'git', environment: query.get('environment') ?? '' };
}

/** Whether an error is about no field that is shown. */
function isElsewhere(details: readonly { field: string }[] | undefined): boolean {
  return details?.every(({ field }) => fieldNames[field.split('.')[0] ?? ''] === undefined) ?? true;
}

function hasContent({ name, image, repository, compose }: Draft): boolean {
  return [name, image, repository, compose].some((text) => text !== '');
}

function onlyOf(servers: readonly { id: string }[]): string {
  const [first, ...others] = servers;
  return first === undefined || others.length > 0 ? '' : first.id;
}

function whyIncomplete(
  { source, image, repository, compose, name }: Draft,
  { needsServer, hasFaults }: { needsServer: boolean; hasFaults: boolean },
): string | undefined {
  if (source === 'image' && image.trim() === '') return 'Enter an image first';
  if (source === 'git' && repository.trim() === '') return 'Enter a repository first';
  if (source === 'compose' && compose.trim() === '') return 'Enter a compose file first';
  if (name.trim() === '') return 'Give it a name first';
  if (needsServer) return 'Choose a server first';
  return hasFaults ? 'Mend the variables first' : undefined;
}

function faultsOf(
  details: readonly { field: string; message: string }[] = [],
  wrongLine?: { line: number; message: string },
): Partial<Record<keyof Draft, string>> {
  const named = details.flatMap(({ field, message }) => {
    const name = fieldNames[field.split('.')[0] ?? ''];
    return name === undefined ? [] : [[name, message]];
  });
  return {
    ...Object.fromEntries(named),
    ...(wrongLine !== undefined && { env: `Line ${wrongLine.line}: ${wrongLine.message}` }),
  };
}

function projectName(project: { display_name: string | null; name: string } | undefined): string {
  return project?.display_name ?? project?.name ?? 'Project';
}

/** What is there to do where nothing can run yet. */
function WithoutServer(props: { label: string; projectHref: string; serversHref: string }): VNode {
  return (
    <Page title="New application" crumbs={[{ label: props.label, href: props.projectHref }]}>
      <EmptyState
        title="No server yet"
        action={<LinkButton href={props.serversHref}>Servers</LinkButton>}
        command="setpoint create server NAME"
      >
        Applications run on your own servers. Add one first: it is a machine with Docker on which the agent runs.
      </EmptyState>
    </Page>
  );
}
