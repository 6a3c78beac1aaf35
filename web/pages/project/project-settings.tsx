import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { projectVerbs } from '#rules/project.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allProjects, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Project } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { SaveBar } from '../../parts/save-bar.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import type { PageProps } from '../page.ts';
import { useContents } from './contents.ts';
import { projectTabs } from './project-tabs.ts';

/** What a project is called, and its end. */
export function ProjectSettings({ params }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { store, collections } = useConsole();
  const href = useHref();
  const { reading } = useList(allProjects, 'project');
  const project = store.get('project', projectId);
  if (project === undefined)
    return (
      <Page title="Settings of the project">
        {reading.state === 'reading' && <Skeleton label="Reading the project" />}
        {reading.state === 'failed' && (
          <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allProjects)} />
        )}
        {reading.state === 'ready' && (
          <Gone what="The project" back={{ href: href(['projects']), label: 'All projects' }} />
        )}
      </Page>
    );
  return (
    <Page
      title={project.display_name ?? project.name}
      crumbs={[{ label: 'Projects', href: href(['projects']) }]}
      tabs={projectTabs(href, project.id)}
      current={href(['projects', project.id, '-', 'settings'])}
    >
      <Names project={project} />
      <Deletion project={project} />
    </Page>
  );
}

interface Names {
  readonly name: string;
  readonly display_name: string;
  readonly description: string;
}

function namesOf({ name, display_name: title, description }: Project): Names {
  return { name, display_name: title ?? '', description: description ?? '' };
}

const fields: readonly { readonly name: keyof Names; readonly label: string; readonly help: string }[] = [
  { name: 'name', label: 'Name', help: 'By which commands and manifests know it' },
  { name: 'display_name', label: 'Shown as', help: 'How people call it' },
  { name: 'description', label: 'Description', help: '' },
];

function Names({ project }: { project: Project }): VNode {
  const { login, store, messages } = useConsole();
  const rank = useRank(project.id);
  const act = useAct();
  const [draft, setDraft] = useState<Partial<Names>>({});
  const stored = namesOf(project);
  const changed = Object.fromEntries(
    fields.flatMap(({ name }) =>
      draft[name] !== undefined && draft[name] !== stored[name] ? [[name, draft[name]]] : [],
    ),
  ) as Partial<Names>; // fields of the draft
  const isChanged = Object.keys(changed).length > 0;
  const why = whyNot(projectVerbs, 'update', project) ?? whyBelow(rank, 'admin');
  const save = async (): Promise<void> => {
    const { name, display_name: title, description } = changed;
    const isDone = await act.run(() =>
      store.answer('project', () =>
        call(login, 'PUT', '/api/v1/projects/{id}', {
          path: { id: project.id },
          body: {
            ...(name !== undefined && { name }),
            ...(title !== undefined && { display_name: title === '' ? null : title }),
            ...(description !== undefined && { description: description === '' ? null : description }),
          },
          ifMatch: project.resource_version,
        }),
      ),
    );
    if (!isDone) return;
    setDraft({});
    messages.say('Saved');
  };
  return (
    <Card title="Names">
      <Form
        id="project-names"
        label="Names of the project"
        error={act.error}
        onSubmit={() => {
          if (isChanged && why === undefined) void save();
          return true;
        }}
      >
        {fields.map(({ name, label, help }) => (
          <Field
            key={name}
            label={label}
            help={help}
            error={act.error?.details?.find(({ field }) => field === name)?.message}
          >
            {(control) => (
              <input
                {...control}
                class="input"
                autocomplete="off"
                readOnly={why !== undefined}
                value={draft[name] ?? stored[name]}
                onInput={({ currentTarget }) => setDraft({ ...draft, [name]: currentTarget.value })}
              />
            )}
          </Field>
        ))}
        {why !== undefined && <p class="quiet">{why}</p>}
      </Form>
      <SaveBar
        form="project-names"
        changes={fieldChanges(
          Object.fromEntries(Object.keys(changed).map((name) => [name, stored[name as keyof Names]])),
          changed,
        )}
        busy={act.busy}
        why={why}
        onDiscard={() => setDraft({})}
      />
    </Card>
  );
}

function Deletion({ project }: { project: Project }): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const rank = useRank(project.id);
  const act = useAct();
  const [asks, setAsks] = useState(false);
  const contents = useContents(project.id);
  useList(environmentsOf(project.id), 'environment');
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('project', () => call(login, 'DELETE', '/api/v1/projects/{id}', { path: { id: project.id } })),
    );
    if (isDone) router.leave(href(['projects', project.id]));
  };
  return (
    <Card
      title="Delete the project"
      actions={
        <Button why={whyNot(projectVerbs, 'delete', project) ?? whyBelow(rank, 'owner')} onClick={() => setAsks(true)}>
          Delete the project
        </Button>
      }
    >
      <p class="quiet">It goes with all environments, applications, databases, functions and volumes in it.</p>
      {asks && (
        <Confirm
          title={`Delete ${project.name}`}
          verb="Delete project"
          goes={[`The project ${project.name} with its environments`, ...contents.goes]}
          stays={['Servers, and projects beside it', 'Backups at their destinations']}
          type={project.name}
          why={contents.why}
          command={`setpoint delete project ${shellQuoted(project.name)}`}
          busy={act.busy}
          error={act.error}
          onConfirm={() => void remove()}
          onClose={() => setAsks(false)}
        />
      )}
    </Card>
  );
}
