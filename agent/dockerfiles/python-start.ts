import { exec, lacking, type DockerfileSettings } from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { shellStart, type Started } from './start.ts';

const moduleName = /^[A-Za-z_][A-Za-z0-9_]{0,100}$/;
const modules = ['main', 'app', 'application', 'server', 'wsgi', 'asgi'];
const folders = ['', 'app/', 'src/'];

/** How the application starts, by the packages that it declares and the usual names of files. */
export async function pythonStart(
  files: RepositoryFiles,
  needs: ReadonlySet<string>,
  settings: DockerfileSettings,
): Promise<Started | undefined> {
  const server = await pythonServer(files, needs, settings);
  if (server !== undefined || (await files.has('manage.py'))) return server;
  for (const file of ['main.py', 'app.py', 'server.py', 'run.py'])
    if (await files.has(file)) return { line: exec('CMD', ['python', file]), reason: `It starts ${file}` };
  return undefined;
}

/**
 * How the server starts that the application declares beside its framework; `undefined` if it declares none.
 * @throws RuntimeFailure `dockerfile_not_found` for a framework without one, unless there is a start command
 */
export async function pythonServer(
  files: RepositoryFiles,
  needs: ReadonlySet<string>,
  { hasCommand }: DockerfileSettings,
): Promise<Started | undefined> {
  if (await files.has('manage.py')) return django(files, needs, hasCommand);
  const asgi = await moduleWith(
    files,
    /^([A-Za-z_][A-Za-z0-9_]{0,60})(?::[^=\n]{0,100})? *= *(?:fastapi\.)?(?:FastAPI|Starlette)\(/m,
  );
  if (asgi !== undefined && (needs.has('fastapi') || needs.has('starlette'))) {
    if (needs.has('uvicorn') || needs.has('fastapi-cli'))
      return served(asgi, `uvicorn ${asgi} --host 0.0.0.0 --port "$\{PORT:-8000}"`);
    if (!hasCommand)
      throw lacking(`${asgi} is an application of FastAPI without a server: declare uvicorn, or set start_command`);
  }
  const wsgi = await moduleWith(files, /^([A-Za-z_][A-Za-z0-9_]{0,60})(?::[^=\n]{0,100})? *= *(?:flask\.)?Flask\(/m);
  if (wsgi !== undefined && needs.has('flask')) {
    if (needs.has('gunicorn')) return served(wsgi, gunicorn(wsgi));
    if (!hasCommand)
      throw lacking(
        `${wsgi} is an application of Flask without a server for production: declare gunicorn, or set start_command`,
      );
  }
  return undefined;
}

async function django(
  files: RepositoryFiles,
  needs: ReadonlySet<string>,
  hasCommand: boolean,
): Promise<Started | undefined> {
  const names = (await files.names('.')).filter((name) => name.endsWith('/')).map((name) => name.slice(0, -1));
  const found: string[] = [];
  for (const name of names.slice(0, 200))
    if (moduleName.test(name) && (await files.has(`${name}/wsgi.py`))) found.push(name);
  const [site] = found;
  if (site !== undefined && found.length === 1 && needs.has('gunicorn'))
    return served(`${site}.wsgi`, gunicorn(`${site}.wsgi`));
  if (hasCommand) return undefined;
  if (!needs.has('gunicorn'))
    throw lacking('manage.py: Django without a server for production: declare gunicorn, or set start_command');
  throw lacking(
    `manage.py: there is ${found.length === 0 ? 'no' : 'more than one'} folder with wsgi.py: add a Procfile with the line web, or set start_command`,
  );
}

function gunicorn(module: string): string {
  return `gunicorn --bind "0.0.0.0:$\{PORT:-8000}" ${module}`;
}

function served(module: string, command: string): Started {
  return {
    line: shellStart(command),
    reason: `It starts ${module} by ${command.split(' ')[0] ?? ''}, which it declares`,
  };
}

/** `module:variable` of the first usual file in which `pattern` finds the variable. */
async function moduleWith(files: RepositoryFiles, pattern: RegExp): Promise<string | undefined> {
  for (const folder of folders)
    for (const name of modules) {
      const variable = pattern.exec(((await files.head(`${folder}${name}.py`)) ?? '').slice(0, 200_000))?.[1];
      if (variable !== undefined) return `${folder.replace('/', '.')}${name}:${variable}`;
    }
  return undefined;
}
