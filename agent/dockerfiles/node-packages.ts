import { z } from 'zod';
import { lacking, type SecretFile } from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';

const Texts = z.record(z.string(), z.unknown()).catch({});

/** What is read of a package.json. Fields of another form count as absent. */
export const Package = z.object({
  main: z.string().max(500).optional().catch(undefined),
  packageManager: z.string().max(500).optional().catch(undefined),
  scripts: Texts.default({}),
  dependencies: Texts.default({}),
  devDependencies: Texts.default({}),
  engines: z
    .object({ node: z.string().max(500).optional().catch(undefined) })
    .optional()
    .catch(undefined),
  workspaces: z.unknown().optional(),
});
export type Package = z.infer<typeof Package>;

/** How packages are installed. The words of commands are plain. */
export interface PackageManager {
  name: 'npm' | 'pnpm' | 'yarn' | 'bun';
  /** The package of the manager itself and its version; `undefined` for the npm of the image. */
  itself: string | undefined;
  install: readonly string[];
  installForUse: readonly string[];
  /** Removes what only the build needs. */
  prune: readonly (readonly string[])[];
  /** Scripts of the package itself that the removal runs, which may need what was just removed. */
  pruneRuns: readonly string[];
  /** Files that the installation reads, beside package.json. */
  reads: readonly string[];
  /** The texts of those that are settings. */
  settings: readonly string[];
  cache: string;
  /** Build secrets that it reads. */
  secrets: readonly SecretFile[];
  reasons: readonly string[];
}

const locks = {
  pnpm: ['pnpm-lock.yaml'],
  yarn: ['yarn.lock'],
  bun: ['bun.lock', 'bun.lockb'],
  npm: ['package-lock.json', 'npm-shrinkwrap.json'],
} as const;
type Name = keyof typeof locks;

/** Decides by `packageManager` of package.json, or else by the lock file. */
export async function packageManager(
  files: RepositoryFiles,
  { packageManager: said }: Package,
): Promise<PackageManager> {
  const there = await files.names('.');
  const found = (['pnpm', 'yarn', 'bun', 'npm'] as const).filter((name) =>
    locks[name].some((it) => there.includes(it)),
  );
  const [, named, version] =
    /^(npm|pnpm|yarn|bun)@(\d{1,4}\.\d{1,4}\.\d{1,6}(?:-[0-9A-Za-z.-]{1,40})?)(?:\+.*)?$/.exec(said ?? '') ?? [];
  const name = isName(named) ? named : (found[0] ?? 'npm');
  const lock = locks[name].find((it) => there.includes(it));
  const reasons = [
    isName(named)
      ? `package.json: packageManager is ${named} ${version ?? ''}`
      : lock === undefined
        ? 'package.json: there is no lock file, so that npm decides the versions anew with each build. Commit one'
        : `${lock}: packages are installed by ${name}`,
    ...(found.length > 1 ? [`There are lock files of ${found.join(' and ')}: that of ${name} is used`] : []),
    ...(said !== undefined && !isName(named)
      ? ['package.json: packageManager is not used, as it names no known version']
      : []),
  ];
  const text =
    lock === undefined || lock === 'bun.lockb' || version !== undefined ? '' : ((await files.head(lock)) ?? '');
  const settings = ['.npmrc', '.yarnrc', '.yarnrc.yml', 'pnpm-workspace.yaml', 'bunfig.toml'].filter((it) =>
    there.includes(it),
  );
  const reads = [...(lock === undefined ? [] : [lock]), ...settings];
  const texts = await Promise.all(settings.map(async (it) => (await files.head(it)) ?? ''));
  const how = commands(name, version ?? versionBy(name, text), lock !== undefined);
  return { ...how, name, reads, settings: texts, reasons };
}

function isName(text: string | undefined): text is Name {
  return text !== undefined && Object.hasOwn(locks, text);
}

/** The version that can read the lock file. */
function versionBy(name: Name, lock: string): string | undefined {
  const head = lock.slice(0, 2000);
  switch (name) {
    case 'npm':
      return undefined;
    case 'pnpm': {
      const major = Number(/^lockfileVersion: *'?(\d{1,3})/m.exec(head)?.[1] ?? '9');
      return major < 6 ? '7' : major < 9 ? '8' : '10';
    }
    case 'yarn':
      return head.includes('__metadata:') ? '4' : '1.22.22';
    case 'bun':
      return '1';
  }
}

const ownScripts = ['preinstall', 'install', 'postinstall', 'prepublish', 'preprepare', 'prepare', 'postprepare'];
const secrets: readonly SecretFile[] = ['npmrc'];

type Commands = Omit<PackageManager, 'name' | 'reads' | 'settings' | 'reasons'>;

function commands(name: Name, version: string | undefined, isLocked: boolean): Commands {
  switch (name) {
    case 'npm':
      return {
        itself: version === undefined ? undefined : `npm@${version}`,
        install: ['npm', isLocked ? 'ci' : 'install'],
        installForUse: ['npm', isLocked ? 'ci' : 'install', '--omit=dev'],
        prune: [['npm', 'prune', '--omit=dev', '--ignore-scripts']],
        pruneRuns: [],
        cache: '/root/.npm',
        secrets,
      };
    case 'pnpm':
      return {
        itself: `pnpm@${version ?? '10'}`,
        install: ['pnpm', 'install', ...(isLocked ? ['--frozen-lockfile'] : [])],
        installForUse: ['pnpm', 'install', '--prod', ...(isLocked ? ['--frozen-lockfile'] : [])],
        // As an option of the command, pnpm 7 does not know it.
        prune: [['pnpm', 'prune', '--prod', '--config.ignore-scripts=true']],
        pruneRuns: [],
        cache: '/root/.local/share/pnpm/store',
        secrets,
      };
    case 'yarn':
      return (version ?? '1').startsWith('1.')
        ? classicYarn(version ?? '1.22.22', isLocked)
        : berry(version ?? '4', isLocked);
    case 'bun': {
      const frozen = isLocked ? ['--frozen-lockfile'] : [];
      return {
        itself: `bun@${version ?? '1'}`,
        install: ['bun', 'install', ...frozen],
        installForUse: ['bun', 'install', '--production', ...frozen],
        prune: [
          ['rm', '-rf', 'node_modules'],
          ['bun', 'install', '--production', ...frozen],
        ],
        pruneRuns: ownScripts,
        cache: '/root/.bun/install/cache',
        secrets,
      };
    }
  }
}

function classicYarn(version: string, isLocked: boolean): Commands {
  const frozen = isLocked ? ['--frozen-lockfile'] : [];
  const forUse = ['yarn', 'install', '--production', ...frozen];
  return {
    itself: `yarn@${version}`,
    install: ['yarn', 'install', ...frozen],
    installForUse: forUse,
    prune: [[...forUse, '--ignore-scripts', '--prefer-offline']],
    pruneRuns: [],
    cache: '/usr/local/share/.cache/yarn',
    secrets,
  };
}

function berry(version: string, isLocked: boolean): Commands {
  const knowsFocus = Number(version.split('.')[0]) >= 4;
  const install = ['yarn', 'install', ...(isLocked ? ['--immutable'] : [])];
  const focus = ['yarn', 'workspaces', 'focus', '--all', '--production'];
  return {
    itself: `@yarnpkg/cli-dist@${version}`,
    install,
    installForUse: knowsFocus ? focus : install,
    prune: knowsFocus ? [focus] : [],
    pruneRuns: ['preinstall', 'install', 'postinstall'],
    cache: '/root/.yarn/berry/cache',
    secrets: [],
  };
}

/** A script of the package that runs when its packages are installed, or one `among` others. */
export function ownScriptOf(it: Package, among: readonly string[] = ownScripts): string | undefined {
  return among.find((name) => typeof it.scripts[name] === 'string');
}

/** Why the installation needs all files of the repository; `undefined` if the lists of packages are enough. */
export async function needsSources(files: RepositoryFiles, it: Package): Promise<string | undefined> {
  const script = ownScriptOf(it);
  if (script !== undefined) return `package.json: its script ${script} runs when packages are installed`;
  const there = await files.names('.');
  if (isWorkspace(it) || /^packages:/m.test((await files.text('pnpm-workspace.yaml')) ?? ''))
    return 'It has workspaces';
  const folder = ['patches/', '.yarn/'].find((name) => there.includes(name));
  if (folder !== undefined) return `The folder ${folder} has files that the installation reads`;
  const all = Object.values({ ...it.dependencies, ...it.devDependencies }).filter((one) => typeof one === 'string');
  if (all.some((one) => one.startsWith('workspace:')))
    throw lacking(
      'package.json has dependencies of its workspace, which are outside of the build context: set build_context to the root of the workspace, and start_command',
    );
  return all.some((one) => /^(?:file|link|portal):|^\.{0,2}\//.test(one))
    ? 'package.json: a dependency is a folder of the repository'
    : undefined;
}

function isWorkspace({ workspaces }: Package): boolean {
  return typeof workspaces === 'object' && workspaces !== null;
}
