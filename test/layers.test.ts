import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

const root = join(import.meta.dirname, '..');
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-layers-'));
  await cp(join(root, '.oxlintrc.json'), join(folder, '.oxlintrc.json'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Fault {
  code: string;
  line: number;
}

const LintReport = z.object({
  diagnostics: z.array(
    z.object({ code: z.string(), labels: z.array(z.object({ span: z.object({ line: z.int() }) })) }),
  ),
});

/** What lint finds in a file of that text at that place. */
async function lint(path: string, text: string): Promise<Fault[]> {
  const file = join(folder, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  const { stdout } = spawnSync(join(root, 'node_modules/.bin/oxlint'), ['--format', 'json', path], {
    cwd: folder,
    encoding: 'utf8',
  });
  await rm(file);
  const { diagnostics } = LintReport.parse(JSON.parse(stdout));
  return diagnostics.map(({ code, labels }) => ({ code, line: labels[0]?.span.line ?? 0 }));
}

/** The lines of a file of that text at that place which lint forbids to import what they import. */
async function forbiddenLines(path: string, lines: readonly string[]): Promise<string[]> {
  const faults = await lint(path, `${lines.join('\n')}\n`);
  const found = new Set(faults.filter(({ code }) => code.includes('no-restricted-imports')).map(({ line }) => line));
  return lines.filter((_, index) => found.has(index + 1));
}

const using = (name: string, from: string) => `import { ${name} } from '${from}'; export const used = ${name};`;

test.each([
  ['api/a.ts', '../controllers/application/plan.ts', 'plan'],
  ['api/a.ts', '../controllers/gateway/gateway.ts', 'startGateway'],
  ['api/routes/a.ts', '../../controllers/deployment/reconcile.ts', 'deploymentController'],
  ['api/a.ts', '../agent/machine/process.ts', 'runProcess'],
  ['controllers/application/a.ts', '../../api/api-error.ts', 'ApiError'],
  ['controllers/application/a.ts', '../../agent/service/plan.ts', 'plan'],
  ['store/a.ts', '../controllers/application/plan.ts', 'plan'],
  ['store/kinds/a.ts', '../../agent-protocol/workload.ts', 'service'],
  ['store/kinds/assignment.ts', '../../agent-protocol/messages.ts', 'GitHead'],
  ['agent/tasks/a.ts', '../../store/keys.ts', 'keys'],
  ['agent-protocol/a.ts', '../store/keys.ts', 'keys'],
  ['rules/a.ts', '../store/keys.ts', 'keys'],
  ['rules/a.ts', 'node:crypto', 'createHash'],
  ['time/a.ts', '../store/keys.ts', 'keys'],
  ['network/a.ts', '../store/keys.ts', 'keys'],
  ['api/a.ts', '../network/address.ts', 'reachOf'],
  ['manifests/a.ts', '../api/api-error.ts', 'ApiError'],
  ['controllers/application/a.ts', '../../store/seal.ts', 'Unsealer'],
  ['api/routes/a.ts', '../../store/seal.ts', 'openKeyring'],
  ['api/routes/a.ts', 'node:child_process', 'spawn'],
  ['agent/tasks/a.ts', 'node:child_process', 'spawn'],
  ['store/a.ts', 'node:child_process', 'spawn'],
  ['cli/a.ts', 'node:child_process', 'spawn'],
  ['web/a.ts', 'node:crypto', 'createHash'],
])('%s must not import %s', async (path, from, name) => {
  expect(await forbiddenLines(path, [using(name, from)])).toHaveLength(1);
});

test.each([
  ['api/a.ts', '../store/keys.ts', 'keys'],
  ['api/a.ts', '../rules/application.ts', 'applicationVerbs'],
  ['controllers/gateway/a.ts', '../../store/seal.ts', 'Unsealer'],
  ['store/kinds/assignment.ts', '../../agent-protocol/earlier-service.ts', 'fromEarlier'],
  ['web/a.ts', '#rules/application.ts', 'applicationVerbs'],
  ['agent/machine/process.ts', 'node:child_process', 'spawn'],
  ['agent/a.ts', '../agent-protocol/codec.ts', 'decode'],
])('%s may import %s', async (path, from, name) => {
  expect(await forbiddenLines(path, [using(name, from)])).toEqual([]);
});

test('no route opens a secret itself', async () => {
  const text = 'export const open = (ctx: { unsealer: unknown }): unknown => ctx.unsealer;\n';
  expect((await lint('api/routes/a.ts', text)).map(({ code }) => code)).toEqual([
    expect.stringContaining('no-restricted-properties'),
  ]);
});

/** What each folder may import, as the page of the architecture lists it. */
async function lawOfFolders(): Promise<ReadonlyMap<string, readonly string[]>> {
  const page = await readFile(join(root, 'docs/architecture.md'), 'utf8');
  const table = page.slice(page.indexOf('| Folder | What it is | May import |')).split('\n\n')[0] ?? '';
  const rows = [...table.matchAll(/^\| ((?:`[\w-]+\/`(?:, )?)+) \|.*\| ([^|;]+)(?:;[^|]*)? \|$/gm)].flatMap(
    ([, names = '', words = '']) =>
      [...names.matchAll(/[\w-]+/g)].map(([name]) => [name, words === 'nothing' ? [] : words.split(', ')] as const),
  );
  const all = rows.map(([name]) => name);
  return new Map(rows.map(([name, others]) => [name, others[0] === 'everything' ? all : [name, ...others]]));
}

/** Places for which the rules of lint may differ: the folder, one inside it, and the exceptions for some of its files. */
async function placesOf(name: string): Promise<string[]> {
  const Config = z.object({ overrides: z.array(z.object({ files: z.array(z.string()) })) });
  const { overrides } = Config.parse(JSON.parse(await readFile(join(root, '.oxlintrc.json'), 'utf8')));
  const exceptions = overrides
    .flatMap(({ files }) => files)
    .filter((glob) => glob.startsWith(`${name}/`))
    .map((glob) => glob.replace('**', 'a.ts').replace('*', ''));
  return [...new Set([`${name}/a.ts`, `${name}/a/b.ts`, ...exceptions])];
}

test('the folders are those of the architecture', async () => {
  const entries = await readdir(root, { withFileTypes: true });
  const present = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  // What a checkout collects, such as the data of `make dev`.
  const ignored = (await readFile(join(root, '.gitignore'), 'utf8'))
    .split('\n')
    .map((line) => line.replaceAll('/', ''));
  const folders = present.filter((name) => !name.startsWith('.') && name !== 'docs' && !ignored.includes(name));
  expect([...(await lawOfFolders()).keys()].toSorted()).toEqual(folders.toSorted());
});

/** The forms of an import; `N` stands for a number, so that the lines of a file differ. */
const everyForm = (path: string): string[] => [
  `import { x as xN } from '${path}'; export const usedN = xN;`,
  `import type { X as XN } from '${path}'; export type UsedN = XN;`,
  `export { x as againN } from '${path}';`,
];

test('lint forbids each import that the architecture does not list, in every form, and no other', async () => {
  const law = await lawOfFolders();
  expect(law.size).toBeGreaterThan(0);
  const wrong: string[] = [];
  for (const [from, allowed] of law)
    for (const place of await placesOf(from)) {
      const up = '../'.repeat(place.split('/').length - 1);
      const lines = [...law.keys()].flatMap((to) =>
        (to === 'rules' && from !== 'rules' ? [`${up}rules/x.ts`, '#rules/x.ts'] : [`${up}${to}/x.ts`])
          .flatMap(everyForm)
          .map((line) => ({ to, line })),
      );
      const texts = lines.map(({ line }, index) => line.replaceAll('N', String(index)));
      const forbidden = await forbiddenLines(place, texts);
      for (const [index, { to }] of lines.entries()) {
        const text = texts[index] ?? '';
        const isForbidden = forbidden.includes(text);
        if (isForbidden === allowed.includes(to))
          wrong.push(`${place} ${isForbidden ? 'may not' : 'may'} have: ${text}`);
      }
    }
  expect(wrong).toEqual([]);
});

test('lint forbids a circle of types in every folder', async () => {
  const missing: string[] = [];
  for (const name of (await lawOfFolders()).keys()) {
    const other = join(folder, name, 'other.ts');
    await mkdir(dirname(other), { recursive: true });
    await writeFile(other, "import type { Mine } from './mine.ts';\nexport type Other = Mine[];\n");
    const faults = await lint(
      `${name}/mine.ts`,
      "import type { Other } from './other.ts';\nexport type Mine = Other[];\n",
    );
    if (!faults.some(({ code }) => code.includes('no-cycle'))) missing.push(name);
  }
  expect(missing).toEqual([]);
});

test('no file imports another folder than those that the architecture lists, when it runs either', async () => {
  const law = await lawOfFolders();
  const wrong: string[] = [];
  for (const [name, allowed] of law) {
    const imports = await importsOf(name);
    expect(imports.length).toBeGreaterThan(0);
    for (const [from, to] of imports)
      if (law.has(topOf(to)) && !allowed.includes(topOf(to)) && !isDescription(from, to))
        wrong.push(`${from} imports ${to}`);
  }
  expect(wrong).toEqual([]);
});

const topOf = (path: string): string => path.split('/')[0] ?? '';

/** The exception of the table: an assignment and the descriptions of workloads and tasks. */
function isDescription(from: string, to: string): boolean {
  const descriptions = ['workload', 'task-table', 'earlier-service'].map((name) => `agent-protocol/${name}.ts`);
  return from.startsWith('store/kinds/assignment') && descriptions.includes(to);
}

/** The rooms of a folder from top to bottom, as the page of the architecture lists them. */
async function roomsOf(folder: string): Promise<string[]> {
  const page = await readFile(join(root, 'docs/architecture.md'), 'utf8');
  const table = page.slice(page.indexOf(`| \`${folder}/\` itself |`)).split('\n\n')[0] ?? '';
  return [...table.matchAll(/^\| `([\w-]+)\/`/gm)].map(([, name = '']) => (name === folder ? '' : name));
}

/** Files of a folder, and the files that each imports, types included. All paths begin at the root. */
async function importsOf(folder: string): Promise<[from: string, to: string][]> {
  const entries = await readdir(join(root, folder), { recursive: true });
  const names = entries.filter((name) => name.endsWith('.ts') && !name.includes('node_modules'));
  const found = await Promise.all(
    names.map(async (name) => {
      const from = join(folder, name);
      const text = await readFile(join(root, from), 'utf8');
      const targets = [...text.matchAll(/(?:from|import|import\() ?'([.#][^']+)'/g)].map(([, to = '']) => to);
      return targets.map((to): [string, string] => [
        from,
        to.startsWith('#') ? to.slice(1) : normalize(join(dirname(from), to)),
      ]);
    }),
  );
  return found.flat();
}

/** Imports of a folder from itself, with paths that begin in it. */
async function inside(folder: string): Promise<[from: string, to: string][]> {
  const imports = await importsOf(folder);
  const within = imports.filter(([, to]) => topOf(to) === folder);
  return within.map(([from, to]) => [from.slice(folder.length + 1), to.slice(folder.length + 1)]);
}

const roomOf = (name: string): string => (name.includes('/') ? (name.split('/')[0] ?? '') : '');

describe.each(['agent', 'api'])('the rooms of %s', (folder) => {
  test('are those of the architecture', async () => {
    const entries = await readdir(join(root, folder), { withFileTypes: true });
    const present = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    expect((await roomsOf(folder)).toSorted()).toEqual(['', ...present].toSorted());
  });

  test('import only from rooms below them', async () => {
    const rooms = await roomsOf(folder);
    const imports = await inside(folder);
    expect(imports.length).toBeGreaterThan(rooms.length);
    const upward = imports.filter(([from, to]) => rooms.indexOf(roomOf(to)) < rooms.indexOf(roomOf(from)));
    expect(upward.map(([from, to]) => `${folder}/${from} imports ${folder}/${to}, of a room above it`)).toEqual([]);
  });
});
