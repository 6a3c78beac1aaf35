import { jsonIn, type RepositoryFiles } from './repository-files.ts';
import { devDependenciesOf } from './node-development.ts';
import { needsSources, Package, packageManager, type PackageManager } from './node-packages.ts';
import { hostOf, isSvelteKit, nodeStart, siteOf, type Site } from './node-start.ts';
import {
  argLines,
  copy,
  dividedArgs,
  from,
  header,
  homeLine,
  lacking,
  portLines,
  run,
  secretMounts,
  user,
  type DockerfileSettings,
  type Language,
} from './recipe.ts';
import { procfileStart, type Started } from './start.ts';
import { siteLines } from './site-server.ts';
import { pinned, within } from './version.ts';

const usual = '24';
const ignore = ['.git', '**/node_modules', '**/npm-debug.log'];

/** Names of releases, as `.nvmrc` may have them. */
const names: ReadonlyMap<string, string> = new Map([
  ['hydrogen', '18'],
  ['iron', '20'],
  ['jod', '22'],
  ['krypton', '24'],
]);

/** Programs and sites of npm, pnpm, yarn and bun. Of a static application only what a known tool writes. */
export const node: Language = async (files, settings) => {
  const it = await jsonIn(files, 'package.json', Package);
  if (it === undefined) return undefined;
  const manager = await packageManager(files, it);
  const runs = manager.name === 'bun' ? 'bun' : 'npm';
  const version = await nodeVersion(files, it);
  const sources = await needsSources(files, it);
  const builds = typeof it.scripts['build'] === 'string';
  const declared = await procfileStart(files);
  const wantsSite = settings.appType === 'static';
  const started = wantsSite ? undefined : typeof declared === 'object' ? declared : await nodeStart(files, it, runs);
  const site = started === undefined && builds && !settings.hasCommand ? siteOf(it) : undefined;
  const reasons = [
    `package.json: an application of Node ${version.tag}, ${version.why}`,
    ...manager.reasons,
    ...(typeof declared === 'string' ? [declared] : []),
    ...(sources === undefined ? [] : [`${sources}: all files are there before`]),
  ];
  if (started === undefined && site === undefined && !settings.hasCommand) {
    if (wantsSite && !isSvelteKit(it)) return undefined;
    throw lacking(notStarted(it));
  }
  const host = hostOf(it);
  const image = `node:${version.tag}-slim`;
  const plan: Plan = { image, manager, sources, builds, host: host.lines, settings };
  if (site !== undefined) {
    reasons.push(`package.json: ${site.tool} writes files to serve, to ${site.output}`);
    return { language: 'node', reasons, lines: builtSite(plan, site), ignore };
  }
  reasons.push(started?.reason ?? 'It starts by the start_command of the application', ...host.reasons);
  const development = devDependenciesOf(it, manager, started?.command);
  reasons.push(...development.reasons);
  return { language: 'node', reasons, lines: program(plan, development.needed, started), ignore };
};

function notStarted(it: Package): string {
  if (isSvelteKit(it))
    return 'package.json: what SvelteKit writes depends on its adapter: use @sveltejs/adapter-node for a server, or @sveltejs/adapter-static for a site';
  return 'package.json does not say how the application starts: add a script start, or main, or a Procfile with the line web, or set start_command';
}

interface Plan {
  image: string;
  manager: PackageManager;
  sources: string | undefined;
  builds: boolean;
  /** Lines of the variables by which it listens on every address. */
  host: readonly string[];
  settings: DockerfileSettings;
}

function program(
  plan: Plan,
  devDependencies: ReturnType<typeof devDependenciesOf>['needed'],
  started: Started | undefined,
): string[] {
  const { manager, host } = plan;
  const prunes = devDependencies === 'before' && manager.prune.length > 0;
  return [
    ...buildStage(plan, devDependencies === 'never' ? 'installForUse' : 'install'),
    ...(prunes
      ? ['', '# What only the build needs goes', run(manager.prune, [], secretMounts(plan.settings, manager.secrets))]
      : []),
    '',
    '# What runs: no rights, no files of root',
    'FROM base',
    'ENV NODE_ENV=production',
    homeLine,
    ...host,
    `COPY --from=build --chown=${user} /app /app`,
    'WORKDIR /app',
    ...portLines(plan.settings.port),
    `USER ${user}`,
    ...(started === undefined ? [] : [started.line]),
    '',
  ];
}

function builtSite(plan: Plan, { output, hashed }: Site): string[] {
  return [
    ...buildStage(plan, 'install'),
    '',
    ...siteLines({ copy: `--from=build /app/${output}`, hashed, port: plan.settings.port }),
  ];
}

/** Names of variables that are settings of package managers. */
const ownVariable = /^(?:(?:npm|pnpm)_config_|yarn_|bun_)/i;

function buildStage({ image, manager, sources, builds, settings }: Plan, how: 'install' | 'installForUse'): string[] {
  const { itself, reads, cache } = manager;
  const caches = settings.cacheMounts ? [cache] : [];
  const install = run([manager[how]], caches, secretMounts(settings, manager.secrets));
  const args = dividedArgs(settings, ownVariable, manager.settings);
  return [
    ...header,
    from(image, 'base'),
    ...(itself === undefined ? [] : [run([['npm', 'install', '--global', '--force', itself]])]),
    ...(manager.name === 'yarn' ? ['ENV YARN_NODE_LINKER=node-modules YARN_ENABLE_GLOBAL_CACHE=1'] : []),
    '',
    'FROM base AS build',
    'WORKDIR /app',
    'ENV CI=true',
    ...(sources === undefined
      ? [
          '# Packages first: this layer stays as long as their list does',
          copy(['package.json', ...reads], './'),
          ...args.before,
          install,
          ...args.after,
          'COPY . .',
        ]
      : [...argLines(settings), 'COPY . .', install]),
    ...(builds ? [run([[manager.name, 'run', 'build']])] : []),
  ];
}

async function nodeVersion(files: RepositoryFiles, { engines }: Package): Promise<{ tag: string; why: string }> {
  for (const file of ['.nvmrc', '.node-version']) {
    const text = (await files.text(file))?.slice(0, 100).trim();
    if (text === undefined) continue;
    const tag = names.get(text.replace(/^lts\//, '')) ?? (text.startsWith('lts/') ? usual : pinned(text));
    if (tag !== undefined) return { tag, why: `as ${file} says` };
  }
  if (engines?.node === undefined) return { tag: usual, why: 'as nothing says another version' };
  return { tag: within(engines.node, usual), why: `which engines.node of package.json admits` };
}
