import { developmentNeed } from './node-development.ts';
import type { Package } from './node-packages.ts';
import { exec, isPlain } from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { startLine, type Started } from './start.ts';

/** Start scripts that are servers for development, of tools that write files to serve. */
const developmentServer =
  /^(?:(?:npx|bunx) )?(?:react-scripts start|vite(?: (?:dev|serve|preview)\b|$| -)|astro(?: (?:dev|preview)| *$)|ng serve|gatsby (?:develop|serve)|docusaurus start|eleventy --serve|webpack(?:-dev-server| serve)|parcel(?! build)|vue-cli-service serve|vitepress dev)/;

/** How the program of a package starts; `undefined` if it has none. `runs` is the manager that runs scripts. */
export async function nodeStart(
  files: RepositoryFiles,
  it: Package,
  runs: 'npm' | 'bun',
): Promise<Started | undefined> {
  const script = startScript(it);
  if (script !== undefined) return startOf(it, script, runs);
  for (const { needs, command, isBundled } of frameworks)
    if (needs.every((name) => Object.hasOwn(it.dependencies, name) || (isBundled && declares(it, name))))
      return { line: exec('CMD', command), reason: `package.json: it starts as programs of ${needs.join(' and ')} do` };
  if (hasSiteTool(it)) return undefined;
  for (const file of [it.main?.replace(/^\.\//, ''), 'server.js', 'index.js', 'app.js', 'server.mjs', 'index.mjs'])
    if (file !== undefined && isPlain(file) && !file.startsWith('-') && (await isThere(files, file)))
      return {
        line: exec('CMD', [runs === 'bun' ? 'bun' : 'node', file]),
        reason: `It starts ${file}, as package.json has no script start`,
      };
  return undefined;
}

interface Script {
  name: string;
  text: string;
  /** Why it is this one. */
  why: string;
}

/** Scripts that start what was built, where `start` is for development. */
const productionStarts = ['start:prod', 'start:production', 'serve:prod'];

/** The script that starts a program; `undefined` if there is none, or one of a server for development. */
function startScript(it: Package): Script | undefined {
  const start = it.scripts['start'];
  if (typeof start !== 'string' || developmentServer.test(start.trim())) return undefined;
  const need = developmentNeed(it, 'npm run start');
  if (need !== undefined && typeof it.scripts['build'] === 'string')
    for (const name of productionStarts) {
      const text = it.scripts[name];
      if (typeof text === 'string' && developmentNeed(it, `npm run ${name}`) === undefined)
        return { name, text, why: `, as start needs ${need} of devDependencies` };
    }
  return { name: 'start', text: start, why: '' };
}

function startOf(it: Package, { name, text, why }: Script, runs: 'npm' | 'bun'): Started {
  const isAlone = it.scripts[`pre${name}`] === undefined && it.scripts[`post${name}`] === undefined;
  const direct = isAlone && /^(?:node|bun) /.test(text.trim()) ? startLine(text) : undefined;
  return {
    line: direct ?? exec('CMD', [runs, 'run', name]),
    reason: `package.json: it starts by the script ${name}${why}`,
    command: `npm run ${name}`,
  };
}

async function isThere(files: RepositoryFiles, path: string): Promise<boolean> {
  const parts = path.split('/');
  return (
    !path.startsWith('/') && !parts.includes('..') && !parts.includes('.') && !parts.includes('') && files.has(path)
  );
}

/** `isBundled`: what they write has the framework in it, so that it may stand in devDependencies. */
const frameworks = [
  { needs: ['next'], command: ['node_modules/.bin/next', 'start'], isBundled: false },
  { needs: ['nuxt'], command: ['node', '.output/server/index.mjs'], isBundled: true },
  { needs: ['astro', '@astrojs/node'], command: ['node', 'dist/server/entry.mjs'], isBundled: false },
  { needs: ['@sveltejs/kit', '@sveltejs/adapter-node'], command: ['node', 'build'], isBundled: true },
];

/** A server that listens on the loopback address alone unless `HOST` says another. */
const loopbackServer = '@astrojs/node';

/** The variable by which the server of a package listens on every address, and why; none if it does so by itself. */
export function hostOf(it: Package): { lines: string[]; reasons: string[] } {
  if (!declares(it, loopbackServer)) return { lines: [], reasons: [] };
  return {
    lines: ['ENV HOST=0.0.0.0'],
    reasons: [`package.json: the server of ${loopbackServer} listens on every address by the variable HOST`],
  };
}

/** Tools that write files to serve: the folder that they write, and what in it has a hash in its name. */
const siteTools: readonly { needs: string; output: string; hashed: readonly string[] }[] = [
  { needs: '@sveltejs/adapter-static', output: 'build', hashed: ['/_app/immutable/*'] },
  { needs: 'astro', output: 'dist', hashed: ['/_astro/*'] },
  { needs: 'vitepress', output: '.vitepress/dist', hashed: ['/assets/*'] },
  { needs: 'react-scripts', output: 'build', hashed: ['/static/*'] },
  { needs: '@docusaurus/core', output: 'build', hashed: ['/assets/*'] },
  { needs: 'gatsby', output: 'public', hashed: [] },
  { needs: '@11ty/eleventy', output: '_site', hashed: [] },
  { needs: '@vue/cli-service', output: 'dist', hashed: [] },
  { needs: 'vite', output: 'dist', hashed: ['/assets/*'] },
  { needs: 'parcel', output: 'dist', hashed: [] },
  { needs: 'webpack', output: 'dist', hashed: [] },
];

export interface Site {
  tool: string;
  output: string;
  hashed: readonly string[];
}

/** What the build of a package writes to serve; `undefined` if no known tool does. */
export function siteOf(it: Package): Site | undefined {
  if (isSvelteKit(it) && !declares(it, '@sveltejs/adapter-static')) return undefined;
  const tool = siteTools.find(({ needs }) => declares(it, needs));
  return tool && { tool: tool.needs, output: tool.output, hashed: tool.hashed };
}

/** What SvelteKit writes depends on its adapter. */
export function isSvelteKit(it: Package): boolean {
  return declares(it, '@sveltejs/kit');
}

function declares(it: Package, name: string): boolean {
  return Object.hasOwn(it.dependencies, name) || Object.hasOwn(it.devDependencies, name);
}

function hasSiteTool(it: Package): boolean {
  return typeof it.scripts['build'] === 'string' && siteOf(it) !== undefined;
}
