import { ownScriptOf, type Package, type PackageManager } from './node-packages.ts';

/** Programs that a package of another name brings. */
const programs: ReadonlyMap<string, string> = new Map([
  ['nest', '@nestjs/cli'],
  ['tsc', 'typescript'],
  ['tsnd', 'ts-node-dev'],
  ['ts-node-esm', 'ts-node'],
  ['babel', '@babel/cli'],
  ['babel-node', '@babel/node'],
  ['dotenv', 'dotenv-cli'],
  ['dotenvx', '@dotenvx/dotenvx'],
  ['run-s', 'npm-run-all'],
  ['run-p', 'npm-run-all'],
]);
/** In the image anyway, also where devDependencies name their packages. */
const ofImage: ReadonlySet<string> = new Set(['node', 'npm', 'npx', 'pnpm', 'yarn', 'bun', 'bunx']);
const runsScript = /\b(?:(?:npm|pnpm|yarn|bun)\s+(?:run\s+)?|node\s+--run[\s=]+)([\w:.-]+)/g;

/** The package of devDependencies alone that a command needs, also by the scripts that it runs; `undefined` for none. */
export function developmentNeed(it: Package, command: string): string | undefined {
  const commands = [command];
  const seen = new Set<string>();
  for (const text of commands) {
    const found = neededBy(it, text);
    if (found !== undefined) return found;
    for (const [, name = ''] of text.matchAll(runsScript))
      for (const one of [`pre${name}`, name, `post${name}`]) {
        const script = it.scripts[one];
        if (typeof script === 'string' && !seen.has(one)) commands.push(script); // which this loop comes to
        seen.add(one);
      }
  }
  return undefined;
}

function neededBy(it: Package, text: string): string | undefined {
  for (const word of new Set(text.split(/[\s;&|()'"=]+/))) {
    const name = /^(?:@[\w.-]+\/)?[\w.-]+/.exec(word.replace(/^(?:\.\/)?node_modules\/(?:\.bin\/)?/, ''))?.[0];
    if (name === undefined || ofImage.has(name)) continue;
    for (const one of [name, programs.get(name)])
      if (one !== undefined && Object.hasOwn(it.devDependencies, one) && !Object.hasOwn(it.dependencies, one))
        return one;
  }
  return undefined;
}

interface DevDependencies {
  /** When they are needed: also when the program runs, only before it, or never. */
  needed: 'always' | 'before' | 'never';
  reasons: string[];
}

/** How long a program needs devDependencies that starts by `command`. */
export function devDependenciesOf(it: Package, manager: PackageManager, command: string | undefined): DevDependencies {
  const need = command === undefined ? undefined : developmentNeed(it, command);
  if (need !== undefined)
    return {
      needed: 'always',
      reasons: [`package.json: devDependencies stay, as ${need}, which the start needs, is one of them`],
    };
  const script = ownScriptOf(it, manager.pruneRuns);
  if (script !== undefined)
    return {
      needed: 'always',
      reasons: [`package.json: devDependencies stay, as their removal would run the script ${script} without them`],
    };
  const builds = typeof it.scripts['build'] === 'string' || ownScriptOf(it) !== undefined;
  return { needed: builds ? 'before' : 'never', reasons: [] };
}
