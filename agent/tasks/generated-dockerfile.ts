import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.ts';
import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import type { Generated } from '../../agent-protocol/messages.ts';
import { GenerateSettings, maxDockerfileChars } from '../../agent-protocol/generated-dockerfile.ts';
import type { TaskSpec } from '../../agent-protocol/task-types.ts';
import { watchDisk, type DiskGuard } from '../disk/disk-guard.ts';
import { generateDockerfile, type GeneratedDockerfile } from '../dockerfiles/generate.ts';
import { lacking } from '../dockerfiles/recipe.ts';
import type { Builder, ContainerRuntime } from '../runtime/runtime.ts';
import { findContext } from './build-folder.ts';
import type { Git } from './git.ts';
import { repositoryReader } from './repository-reader.ts';
import { Turns } from './turns.ts';
import type { WorkFolder } from './work-folder.ts';

const withinMs = 30_000;
/** Previews at the same time, beside builds. */
const parallelPreviews = 2;

/**
 * Generates the Dockerfile of a build and shows it, with its reasons, in the log.
 * @throws RuntimeFailure as `generateDockerfile`
 */
export async function generatedFor(
  context: string,
  spec: Pick<TaskSpec<'build'>, 'generate' | 'build_args' | 'build_secrets'>,
  { type }: Builder,
  line: (text: string) => void,
): Promise<GeneratedDockerfile> {
  line('Generates a Dockerfile, as dockerfile_path is auto');
  const made = await generated(
    context,
    spec.generate,
    {
      args: Object.keys(spec.build_args),
      secrets: Object.keys(spec.build_secrets ?? {}),
    },
    type,
  );
  for (const reason of made.reasons) line(`  ${reason}`);
  line('The Dockerfile:');
  for (const one of made.text.trimEnd().split('\n')) line(`  ${one}`);
  return made;
}

async function generated(
  context: string,
  settings: GenerateSettings | undefined,
  names: { args: readonly string[]; secrets: readonly string[] },
  builder: Builder['type'],
): Promise<GeneratedDockerfile> {
  const { port, has_command: hasCommand, app_type: appType } = settings ?? GenerateSettings.parse({});
  const made = await generateDockerfile(repositoryReader(context), {
    port,
    hasCommand,
    appType,
    buildArgs: names.args.toSorted(),
    buildSecrets: names.secrets.toSorted(),
    cacheMounts: builder === 'buildkit',
  });
  if (made.text.length > maxDockerfileChars)
    throw lacking('it would be too long, as the application has very many build arguments: add one to the repository');
  return made;
}

/**
 * Returns the Dockerfile that a build of the head of a branch would generate; builds nothing. Waits for its turn, two at a
 * time and one of a project, and reads nothing that would fill the disk.
 * @throws RuntimeFailure as `Git.checkout` and `generateDockerfile`; `no_space`
 */
export type PreviewDockerfile = (
  query: {
    /** Absent with control planes of earlier releases. */
    project_id?: string | undefined;
    repository_url: string;
    branch: string;
    build_context: string;
    submodules?: boolean | undefined;
    build_args: readonly string[];
    /** Absent with control planes of earlier releases. */
    build_secret_ids?: readonly string[] | undefined;
    generate: GenerateSettings;
    credential?: GitCredential | undefined;
  },
  signal: AbortSignal,
) => Promise<Generated>;

export function dockerfilePreview({
  git,
  folder,
  runtime,
  disk,
  clock,
}: {
  git: Git;
  folder: WorkFolder;
  runtime: Pick<ContainerRuntime, 'builder'>;
  disk: DiskGuard;
  clock: Clock;
}): PreviewDockerfile {
  const turns = new Turns(parallelPreviews);
  const preview: PreviewDockerfile = async (query, signal) => {
    const {
      project_id: project,
      repository_url: url,
      branch,
      build_context,
      submodules,
      build_args: args,
      build_secret_ids: secrets = [],
      generate,
      credential,
    } = query;
    await using work = await folder.make();
    const { commit } = await git.checkout(
      { project, url, branch, credential, submodules, withinMs },
      work.path,
      signal,
    );
    const context = await findContext(await realpath(join(work.path, 'tree')), build_context);
    const { type } = await runtime.builder(signal);
    const { language, reasons, text, ignore } = await generated(context, generate, { args, secrets }, type);
    return { commit, language, reasons: [...reasons], dockerfile: text, ignore: [...ignore] };
  };
  return (query, signal) =>
    turns.take(
      query.project_id ?? query.repository_url,
      async () => {
        const what = `read repository ${query.repository_url}`;
        await disk.check(what);
        using watch = watchDisk(disk, clock, what);
        return await preview(query, AbortSignal.any([signal, watch.signal]));
      },
      signal,
    );
}
