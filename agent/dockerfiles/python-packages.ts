import { z } from 'zod';
import { copy, dividedArgs, lacking, run, secretMounts, type DockerfileSettings } from './recipe.ts';

/** What is read of a pyproject.toml. Fields of another form count as absent. */
export const Project = z.object({
  project: z
    .object({
      'requires-python': z.string().optional().catch(undefined),
      dependencies: z.array(z.string()).catch([]).default([]),
    })
    .optional()
    .catch(undefined),
  'build-system': z.unknown().optional(),
  tool: z
    .object({
      poetry: z
        .object({ dependencies: z.record(z.string(), z.unknown()).catch({}).default({}) })
        .optional()
        .catch(undefined),
    })
    .optional()
    .catch(undefined),
});
export type Project = z.infer<typeof Project>;

interface Installation {
  reason: string;
  lines: string[];
}

const venv = run([['python', '-m', 'venv', '/venv']]);
const noCache = ['--no-cache-dir', '--disable-pip-version-check'];

/** How the packages of an application get into /venv. @throws RuntimeFailure `dockerfile_not_found` with what to add */
export function installation(
  there: readonly string[],
  project: Project | undefined,
  requirements: string | undefined,
  settings: DockerfileSettings,
): Installation {
  const { before, after } = dividedArgs(settings, /^(?:PIP|UV|POETRY)_/, [requirements]);
  const { reason, lines } = installed(there, project, requirements, settings, after);
  return { reason, lines: [...before, ...lines] };
}

/** `args`: the lines of the build arguments that no installation reads. */
function installed(
  there: readonly string[],
  project: Project | undefined,
  requirements: string | undefined,
  settings: DockerfileSettings,
  args: readonly string[],
): Installation {
  const pip = (...words: string[]): string =>
    run(
      [['/venv/bin/pip', 'install', ...(settings.cacheMounts ? noCache.slice(1) : noCache), ...words]],
      settings.cacheMounts ? ['/root/.cache/pip'] : [],
      secretMounts(settings, ['pip.conf', 'netrc']),
    );
  if (project !== undefined && there.includes('uv.lock')) return byUv(project, settings, args);
  if (project?.tool?.poetry !== undefined || (project !== undefined && there.includes('poetry.lock')))
    return byPoetry(there, settings);
  if (requirements !== undefined) {
    const needsAll =
      /^[ \t]*(?:-[rce]|--requirement|--constraint|--editable|--find-links|-f|\.{0,2}\/|[^#\s]*@ *file:|[\w./-]+\.whl)/m.test(
        requirements,
      );
    return {
      reason: needsAll
        ? 'requirements.txt names files of the repository: all files are there before pip installs it'
        : 'requirements.txt: packages are installed by pip',
      lines: needsAll
        ? [venv, ...args, 'COPY . .', pip('-r', 'requirements.txt')]
        : [venv, first, copy(['requirements.txt'], './'), pip('-r', 'requirements.txt')],
    };
  }
  if (project?.project !== undefined && project['build-system'] !== undefined)
    return { reason: 'pyproject.toml: it is installed by pip', lines: [venv, ...args, 'COPY . .', pip('.')] };
  if (project?.project !== undefined && project.project.dependencies.length > 0)
    throw lacking(
      'pyproject.toml declares dependencies without a lock file and without build-system: add uv.lock (uv lock), or requirements.txt',
    );
  return { reason: 'It declares no packages', lines: [venv] };
}

const first = '# Packages first: this layer stays as long as their list does';

/** Installs a program that installs packages. */
function toolBy(settings: DockerfileSettings, name: string): string {
  const install = ['python', '-m', 'pip', 'install', ...noCache, '--break-system-packages', name];
  return run([install], [], secretMounts(settings, ['pip.conf', 'netrc']));
}

function byUv(project: Project, settings: DockerfileSettings, args: readonly string[]): Installation {
  const secrets = secretMounts(settings, ['netrc']);
  const sync = ['uv', 'sync', '--frozen', '--no-dev'];
  const isPackage = project['build-system'] !== undefined;
  return {
    reason: 'uv.lock: packages are installed by uv',
    lines: [
      toolBy(settings, 'uv'),
      'ENV UV_PROJECT_ENVIRONMENT=/venv UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy',
      first,
      copy(['pyproject.toml', 'uv.lock'], './'),
      run([[...sync, '--no-install-project']], settings.cacheMounts ? ['/root/.cache/uv'] : [], secrets),
      ...(isPackage ? [...args, 'COPY . .', run([[...sync, '--no-editable']], [], secrets)] : []),
    ],
  };
}

function byPoetry(there: readonly string[], settings: DockerfileSettings): Installation {
  const lock = there.includes('poetry.lock') ? ['poetry.lock'] : [];
  return {
    reason:
      lock.length > 0
        ? 'poetry.lock: packages are installed by poetry'
        : 'pyproject.toml: packages are installed by poetry. Commit a poetry.lock, so that each build has the same versions',
    lines: [
      toolBy(settings, 'poetry~=2.0'),
      venv,
      'ENV VIRTUAL_ENV=/venv PATH=/venv/bin:$PATH POETRY_NO_INTERACTION=1',
      first,
      copy(['pyproject.toml', ...lock], './'),
      run(
        [['poetry', 'install', '--only', 'main', '--no-root', '--no-directory']],
        [],
        secretMounts(settings, ['netrc']),
      ),
    ],
  };
}
