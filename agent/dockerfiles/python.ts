import { jsonIn, tomlIn, type RepositoryFiles } from './repository-files.ts';
import { Package } from './node-packages.ts';
import { nodeStart, siteOf } from './node-start.ts';
import { from, header, homeLine, lacking, portLines, user, type DockerfileSettings, type Language } from './recipe.ts';
import { installation, Project } from './python-packages.ts';
import { pythonServer, pythonStart } from './python-start.ts';
import { procfileStart, webCommand } from './start.ts';
import { pinned, within } from './version.ts';

const usual = '3.13';
const ignore = ['.git', '**/__pycache__', '**/*.pyc', '.venv', 'venv', '.pytest_cache'];

const markers = [
  'pyproject.toml',
  'requirements.txt',
  'Pipfile',
  'manage.py',
  'app.py',
  'main.py',
  'wsgi.py',
  'asgi.py',
];
const programs = /^(?:python3?|gunicorn|uvicorn|hypercorn|daphne|waitress-serve|flask)$/;
const programsOfNode = /^(?:node|npm|npx|pnpm|yarn|bun|bunx)$/;

/**
 * Whether a repository with a package.json is one of Python: package.json starts no server, and Python declares one, or
 * else nothing that package.json builds could run or be served.
 */
export async function isOfPython(files: RepositoryFiles, settings: DockerfileSettings): Promise<boolean> {
  const there = await files.names('.');
  if (!markers.some((name) => there.includes(name))) return false;
  const [word = ''] = /^\S+/.exec((await webCommand(files)) ?? '') ?? [];
  if (programs.test(word)) return true;
  if (programsOfNode.test(word)) return false;
  if (there.includes('manage.py')) return true;
  const it = await jsonIn(files, 'package.json', Package);
  if (it === undefined || (await nodeStart(files, it, 'npm')) !== undefined) return false;
  const project = await tomlIn(files, 'pyproject.toml', Project);
  const requirements = await files.text('requirements.txt');
  if (requirements === undefined && !declaresPackages(project, there)) return false;
  const needs = declaredNames(project, requirements, await lockOf(files, there));
  if ((await pythonServer(files, needs, { ...settings, hasCommand: true })) !== undefined) return true;
  return !settings.hasCommand && (typeof it.scripts['build'] !== 'string' || siteOf(it) === undefined);
}

/** Programs that pip, uv or poetry install. */
export const python: Language = async (files, settings) => {
  const there = await files.names('.');
  const marker = markers.find((name) => there.includes(name));
  if (marker === undefined) return undefined;
  const project = await tomlIn(files, 'pyproject.toml', Project);
  const requirements = await files.text('requirements.txt');
  if (there.includes('Pipfile') && requirements === undefined && !declaresPackages(project, there))
    throw lacking('Pipfile is not read: add requirements.txt, or a pyproject.toml with uv.lock or poetry.lock');
  const version = await pythonVersion(files, project);
  const needs = declaredNames(project, requirements, await lockOf(files, there));
  const install = installation(there, project, requirements, settings);
  const declared = await procfileStart(files);
  const started = typeof declared === 'object' ? declared : await pythonStart(files, needs, settings);
  const hasPackageJson = there.includes('package.json');
  if (started === undefined && !settings.hasCommand)
    throw lacking(
      `it is not clear how this Python application starts: add a Procfile with the line web, or main.py, or declare gunicorn or uvicorn beside Django, Flask or FastAPI, or set start_command`,
    );
  const python = `python:${version.tag}-slim`;
  return {
    language: 'python',
    reasons: [
      `${marker}: an application of Python ${version.tag}, ${version.why}`,
      install.reason,
      ...(hasPackageJson
        ? ['package.json is not used: what its scripts write has to be in the repository, or add a Dockerfile']
        : []),
      ...(typeof declared === 'string' ? [declared] : []),
      started?.reason ?? 'It starts by the start_command of the application',
    ],
    lines: [
      ...header,
      from(python, 'build'),
      'WORKDIR /app',
      ...install.lines,
      '',
      '# What runs: no rights, no files of root',
      from(python),
      'ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/venv/bin:$PATH VIRTUAL_ENV=/venv',
      homeLine,
      'COPY --from=build /venv /venv',
      `COPY --chown=${user} . /app`,
      'WORKDIR /app',
      ...portLines(settings.port),
      `USER ${user}`,
      ...(started === undefined ? [] : [started.line]),
      '',
    ],
    ignore,
  };
};

/** Whether a pyproject.toml is more than settings of tools. */
function declaresPackages(project: Project | undefined, there: readonly string[]): boolean {
  return (
    project !== undefined &&
    (project.project !== undefined ||
      project.tool?.poetry !== undefined ||
      ['uv.lock', 'poetry.lock'].some((name) => there.includes(name)))
  );
}

async function lockOf(files: RepositoryFiles, there: readonly string[]): Promise<string> {
  const lock = ['uv.lock', 'poetry.lock'].find((name) => there.includes(name));
  return lock === undefined ? '' : ((await files.head(lock)) ?? '');
}

/** Names of the packages that it declares, in lower case; those of a lock file count, too. */
function declaredNames(
  project: Project | undefined,
  requirements: string | undefined,
  lock: string,
): ReadonlySet<string> {
  const poetry = Object.keys(project?.tool?.poetry?.dependencies ?? {});
  const lines = [...(project?.project?.dependencies ?? []), ...(requirements ?? '').split('\n')];
  const named = lines.flatMap((line) => /^\s*([A-Za-z0-9][A-Za-z0-9._-]{0,100})/.exec(line)?.[1] ?? []);
  const locked = [...lock.matchAll(/^name = "([A-Za-z0-9._-]{1,100})"$/gm)].flatMap(([, name = '']) => name);
  return new Set([...poetry, ...named, ...locked].map((name) => name.toLowerCase()));
}

async function pythonVersion(
  files: RepositoryFiles,
  project: Project | undefined,
): Promise<{ tag: string; why: string }> {
  for (const file of ['.python-version', 'runtime.txt']) {
    const tag = pinned(((await files.text(file)) ?? '').slice(0, 200));
    if (tag !== undefined && /^3(?:\.|$)/.test(tag)) return { tag, why: `as ${file} says` };
  }
  const poetry = project?.tool?.poetry?.dependencies['python'];
  const range = project?.project?.['requires-python'] ?? (typeof poetry === 'string' ? poetry : undefined);
  if (range === undefined) return { tag: usual, why: 'as nothing says another version' };
  const tag = within(range, usual);
  return { tag: tag.startsWith('3.') ? tag : usual, why: 'which pyproject.toml admits' };
}
