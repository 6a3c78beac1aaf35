import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { allProjects, allServers } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { Project } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Form } from '../../parts/form.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { Values } from '../../parts/schema-form.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import type { BodyOf } from '../body-of.ts';
import type { PageProps } from '../page.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';
import { newSyncLayout } from './form-layout.ts';
import { useSyncControls } from './sync-controls.tsx';
import { withOneFollowed } from './sync-words.ts';

/** Makes a sync of a project; it looks at its branch at once. */
export function NewSyncPage({ params }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { store, collections } = useConsole();
  const href = useHref();
  const projects = useList(allProjects, 'project').reading;
  const servers = useList(allServers, 'server');
  const project = store.get('project', projectId);
  const fields = useBodyFields('post', '/api/v1/syncs');
  return (
    <Page
      title="New sync"
      crumbs={[
        { label: 'Syncs', href: href(['syncs']) },
        ...(project === undefined
          ? []
          : [{ label: project.display_name ?? project.name, href: href(['projects', projectId]) }]),
      ]}
    >
      {fields.error !== undefined && <ErrorBox error={fields.error} onRetry={fields.again} />}
      {projects.state === 'failed' && (
        <ErrorBox error={{ message: projects.message }} onRetry={() => collections.retry(allProjects)} />
      )}
      {project === undefined && projects.state === 'ready' ? (
        <Gone what="The project" back={{ href: href(['projects']), label: 'All projects' }} />
      ) : servers.reading.state === 'ready' && servers.objects.length === 0 ? (
        <EmptyState
          title="No server yet"
          action={<LinkButton href={href(['servers'])}>Servers</LinkButton>}
          command="setpoint create server NAME"
        >
          The agent of a server reads the repository. Add a server first: it is a machine with Docker on which the agent
          runs.
        </EmptyState>
      ) : fields.data === undefined || project === undefined ? (
        <Skeleton label="Reading what can be set" />
      ) : (
        <Creation project={project} fields={fields.data} />
      )}
    </Page>
  );
}

function Creation({ project, fields }: { readonly project: Project; readonly fields: readonly FieldSpec[] }): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const rank = useRank(project.id);
  const hasDefault = project.default_server_id !== null;
  const { controls, names } = useSyncControls(project.id, {
    environment: 'The default one of the project',
    server: hasDefault ? 'The default one of the project' : 'Choose one',
  });
  const start: Values = { project_id: project.id, branch: 'main', prune: true, drift: 'warn', is_paused: false };
  const form = useForm(fields, start, async () => {
    const made = await store.answer('sync', () =>
      // the fields are those of the schema of this body
      call(login, 'POST', '/api/v1/syncs', { body: body as BodyOf<'createSync'> }),
    );
    router.leave(href(['syncs', made.id]));
  });
  const body: Values = Object.fromEntries(
    Object.entries(form.values).filter(([, value]) => value !== undefined && value !== '' && value !== null),
  );
  const isDirty = Object.keys(form.changed).length > 0;
  useUnsaved(isDirty && !form.busy, 'The sync is not created yet. Leave it?');
  const below = whyBelow(rank, 'admin');
  const why = below ?? (!hasDefault && body['server_id'] === undefined ? 'Choose a server first' : undefined);
  return (
    <div class="stack">
      <Notice shape="info">
        <p>
          A sync has your rights in {project.display_name ?? project.name}: whoever may push to the branch can do there
          what you may do.
        </p>
      </Notice>
      <Form
        label="New sync"
        verb="Create sync"
        busy={form.busy}
        why={why}
        error={form.error}
        onSubmit={form.submit}
        onCancel={() => router.go(href(['syncs']))}
      >
        <SchemaForm
          fields={fields}
          layout={newSyncLayout}
          values={form.values}
          onChange={(next) => form.setValues(withOneFollowed(form.values, next))}
          faults={form.faults}
          custom={controls}
        />
        <ShowAs
          origin={location.origin}
          request={{ method: 'POST', path: shownPath(login, '/api/v1/syncs'), body }}
          command={commandOf(project, body, names)}
        />
      </Form>
    </div>
  );
}

function commandOf(project: Project, body: Values, names: ReadonlyMap<string, string>): string {
  const option = (name: string, value: unknown): string[] =>
    typeof value === 'string' || typeof value === 'number' ? [`--${name} ${shellQuoted(String(value))}`] : [];
  const nameOf = (id: unknown): string | undefined => (typeof id === 'string' ? (names.get(id) ?? id) : undefined);
  return [
    `setpoint sync create ${shellQuoted(typeof body['name'] === 'string' ? body['name'] : 'NAME')}`,
    ...option('project', project.name),
    ...option('repository', body['repository_url'] ?? 'URL'),
    ...option('branch', body['branch']),
    ...option('tag-pattern', body['tag_pattern']),
    ...option('path', body['path']),
    ...option('git-credential', body['git_credential_id']),
    ...option('environment', nameOf(body['environment_id'])),
    ...option('on', nameOf(body['server_id'])),
    ...option('interval', body['interval_seconds']),
    ...(body['prune'] === false ? ['--no-prune'] : []),
    ...option('drift', body['drift']),
  ].join(' ');
}
