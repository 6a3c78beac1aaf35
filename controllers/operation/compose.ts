import { answerOf } from '../../agent-protocol/answer.ts';
import { RepositoryFiles } from '../../agent-protocol/messages.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { deployedServices } from '../../store/composed-versions.ts';
import { fileContent, openVariables } from '../../store/composed-values.ts';
import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import type { Source } from '../../store/kinds/application.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { maxComposeBytes } from '../../store/kinds/composed-service.ts';
import type { PlainComposedService } from '../../store/kinds/composed-service.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import type { ComposedApplication } from '../../compose/composed-application.ts';
import { folderOf } from '../../compose/paths.ts';
import type { RepositoryFile } from '../../compose/repository-files.ts';
import { refuseForeign } from './refuse-foreign.ts';
import { OperationFailure, type Run, type RunTools } from './run.ts';

type App = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;
type Place = NonNullable<DeepReadonly<Extract<Source, { type: 'compose' }>>['repository']>;

/** What is read, and for which deployment. */
interface Reading {
  app: App;
  deployment: Deployment;
  place: Place;
  service: string | undefined;
}

/**
 * Reads the compose file of a deployment in its repository, at one commit, and the files that it refers to. Adds to the
 * deployment what they declare: from then on it never changes.
 */
export const compose: Run = async (it, tools) => {
  const { view } = tools.ctx;
  const deployment = view.get('deployment', it.desired.deployment_id ?? '');
  const app = deployment && view.get('application', deployment.desired.application_id);
  if (deployment === undefined || app === undefined)
    throw new OperationFailure('not_found', 'Its deployment was deleted');
  const { source } = deployment.desired;
  const { repository: place, compose_service: service } =
    source.type === 'compose' ? source : { repository: undefined, compose_service: undefined };
  if (place === undefined)
    throw new OperationFailure('invalid_source', 'Its source is no compose file in a repository');
  // a crash has left it behind the write, or nobody needs it any more
  if (deployment.desired.services !== undefined || hasDeploymentEnded(deployment.observed?.phase)) return {};
  refuseForeign(app, place.git_credential_id, tools);
  return read({ app, deployment, place, service }, tools);
};

async function read(reading: Reading, tools: RunTools): Promise<Record<string, unknown>> {
  const { app, deployment, place } = reading;
  const { commit: wanted = deployment.desired.reuse?.commit } = deployment.desired;
  const found = await filesOf(reading, [place.compose_path], wanted, tools);
  const { commit, commit_message } = found;
  // also a deployment that fails names the commit that it is of
  if (deployment.desired.commit === undefined)
    await tools.ctx.amend('deployment', deployment.meta.id, (draft) => void (draft.commit = commit));
  const variables = new Map(
    Object.entries(openVariables(secretsOf(tools), app.meta.id, deployment.desired.config.env)),
  );
  const { services, notes } = await composed(reading, found, variables, tools);
  const stored = deployedServices(secretsOf(tools), services, {
    application: { id: app.meta.id, internal_id: app.desired.internal_id },
    deployment: { id: deployment.meta.id, number: deployment.desired.number },
    reuse: deployment.desired.reuse,
    serving: servingDeployment(tools.ctx.view, app.meta.id),
  });
  await tools.ctx.amend('deployment', deployment.meta.id, (draft) => {
    draft.commit = commit;
    draft.services = stored;
    draft.notes = [...notes];
  });
  return { commit, commit_message };
}

interface Found extends RepositoryFiles {
  byPath: ReadonlyMap<string, RepositoryFile>;
}

async function filesOf(
  { app, deployment, place }: Reading,
  paths: readonly string[],
  commit: string | undefined,
  { agents, ctx, signal, timeoutMs }: RunTools,
): Promise<Found> {
  const { repository_url, branch, git_credential_id } = place;
  const answer = await agents.call(
    ctx.tenant,
    deployment.desired.server_id,
    {
      method: 'repository.read',
      repository_url,
      branch,
      paths: [...paths],
      project_id: app.desired.project_id,
      ...logOf(deployment),
      ...(commit !== undefined && { commit }),
      ...(git_credential_id !== undefined && { git_credential_id }),
    },
    { timeoutMs, signal },
  );
  const read = answerOf(RepositoryFiles, answer);
  const byPath = paths.map((path, index): [string, RepositoryFile] => {
    const file = read.files[index] ?? { lack: 'missing' };
    return [path, 'content' in file ? { content: Buffer.from(file.content, 'base64') } : file];
  });
  return { ...read, byPath: new Map(byPath) };
}

/** The services with all their files. What is refused is in the log of the build, each with its place. */
async function composed(
  reading: Reading,
  found: Found,
  variables: ReadonlyMap<string, string>,
  tools: RunTools,
): Promise<{ services: readonly PlainComposedService[]; notes: readonly string[] }> {
  const { composedApplication, requireComposedRoom } = await import('../../compose/composed-application.ts');
  const { ComposeFault, inWords } = await import('../../compose/fault.ts');
  const { neededFiles, withRepositoryFiles } = await import('../../compose/repository-files.ts');
  const { app, deployment, place, service } = reading;
  const text = textOf(found.byPath.get(place.compose_path), place);
  const note = noter(reading, tools);
  try {
    const it: ComposedApplication = composedApplication({
      text,
      variables,
      inRepository: true,
      folder: folderOf(place.compose_path),
      service,
      exposedPort: deployment.desired.config.exposed_port,
    });
    const needed = neededFiles(it.services, it.wanted);
    const { byPath: contents } = needed.length === 0 ? found : await filesOf(reading, needed, found.commit, tools);
    const services = withRepositoryFiles(it.services, { wanted: it.wanted, contents, variables });
    requireComposedRoom(services, app.desired.replicas);
    await note(it.notes.map((line) => `${place.compose_path}: ${line}`));
    return { services, notes: it.notes };
  } catch (error) {
    if (!(error instanceof ComposeFault)) throw error;
    const lines = error.findings.length > 0 ? error.findings.map(inWords) : [error.message];
    await note(lines.map((line) => `${place.compose_path}: ${line}`));
    const shown = lines.slice(0, maxShown).join('; ');
    const more = lines.length > maxShown ? `; and ${lines.length - maxShown} more, see its build log` : '';
    throw new OperationFailure('compose_refused', `${place.compose_path} is refused: ${shown}${more}`);
  }
}

/** Most findings in the message of a deployment that failed. */
const maxShown = 5;
const maxLineChars = 2000;
const maxLines = 200;

function textOf(file: RepositoryFile | undefined, { compose_path: path, branch }: Place): string {
  const refused = (why: string) => new OperationFailure('invalid_source', `${path} of branch ${branch} ${why}`);
  if (file === undefined || 'lack' in file)
    switch (file?.lack) {
      case 'not_file':
        throw refused('is no regular file: compose_path must name the compose file itself');
      case 'too_large':
        throw refused(`is larger than ${maxComposeBytes / 1024} KiB`);
      default:
        throw refused('is not there: check compose_path, which is a path in the repository');
    }
  const { content = '', encoding } = fileContent(file.content);
  if (encoding !== undefined) throw refused('is no text in UTF-8');
  return content;
}

/** Writes lines to the build log of the deployment. */
function noter({ deployment }: Reading, { agents, ctx, signal, timeoutMs }: RunTools) {
  return async (lines: readonly string[]): Promise<void> => {
    if (lines.length === 0) return;
    await agents.call(
      ctx.tenant,
      deployment.desired.server_id,
      {
        method: 'build.note',
        ...logOf(deployment),
        lines: lines.slice(0, maxLines).map((line) => line.slice(0, maxLineChars)),
      },
      { timeoutMs, signal },
    );
  };
}

function logOf({ meta, desired }: Deployment): { workload: string; instance: string } {
  return { workload: desired.application_id, instance: assignmentId.task(meta.id, 'build') };
}

function secretsOf({ ctx: { tenant }, secrets }: RunTools) {
  return { tenant, sealer: secrets, unsealer: secrets };
}
