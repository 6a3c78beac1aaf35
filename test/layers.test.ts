import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-layers-'));
  await cp(join(root, '.oxlintrc.json'), join(folder, '.oxlintrc.json'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What lint says of a file of that text at that place. */
async function lint(path: string, text: string): Promise<string> {
  const file = join(folder, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  try {
    return execFileSync(join(root, 'node_modules/.bin/oxlint'), [path], { cwd: folder, encoding: 'utf8' });
  } catch (error) {
    return String((error as { stdout: string }).stdout);
  } finally {
    await rm(file);
  }
}

const using = (name: string, from: string) => `import { ${name} } from '${from}';\nexport const used = ${name};\n`;

test.each([
  ['api/a.ts', '../controllers/application/plan.ts', 'plan'],
  ['api/a.ts', '../controllers/gateway/gateway.ts', 'startGateway'],
  ['api/routes/a.ts', '../../controllers/deployment/reconcile.ts', 'deploymentController'],
  ['api/a.ts', '../agent/machine/process.ts', 'runProcess'],
  ['controllers/application/a.ts', '../../api/api-error.ts', 'ApiError'],
  ['controllers/application/a.ts', '../../agent/service/plan.ts', 'plan'],
  ['store/a.ts', '../controllers/application/plan.ts', 'plan'],
  ['store/kinds/a.ts', '../../agent-protocol/messages.ts', 'GitHead'],
  ['agent/tasks/a.ts', '../../store/keys.ts', 'keys'],
  ['agent-protocol/a.ts', '../store/keys.ts', 'keys'],
  ['rules/a.ts', '../store/keys.ts', 'keys'],
  ['rules/a.ts', 'node:crypto', 'createHash'],
  ['time/a.ts', '../store/keys.ts', 'keys'],
  ['manifests/a.ts', '../api/api-error.ts', 'ApiError'],
  ['controllers/application/a.ts', '../../store/seal.ts', 'Unsealer'],
  ['api/routes/a.ts', '../../store/seal.ts', 'openKeyring'],
  ['api/routes/a.ts', 'node:child_process', 'spawn'],
  ['agent/tasks/a.ts', 'node:child_process', 'spawn'],
  ['store/a.ts', 'node:child_process', 'spawn'],
])('%s must not import %s', async (path, from, name) => {
  expect(await lint(path, using(name, from))).toContain('no-restricted-imports');
});

test.each([
  ['api/a.ts', '../store/keys.ts', 'keys'],
  ['api/a.ts', '../rules/application.ts', 'applicationVerbs'],
  ['controllers/gateway/a.ts', '../../store/seal.ts', 'Unsealer'],
  ['agent/machine/process.ts', 'node:child_process', 'spawn'],
  ['agent/a.ts', '../agent-protocol/codec.ts', 'decode'],
])('%s may import %s', async (path, from, name) => {
  expect(await lint(path, using(name, from))).not.toContain('no-restricted-imports');
});

test('no route opens a secret itself', async () => {
  const text = 'export const open = (ctx: { unsealer: unknown }): unknown => ctx.unsealer;\n';
  expect(await lint('api/routes/a.ts', text)).toContain('no-restricted-properties');
});

/** The rooms of a folder from top to bottom, as the page of the architecture lists them. */
async function roomsOf(folder: string): Promise<string[]> {
  const page = await readFile(join(root, 'docs/architecture.md'), 'utf8');
  const table = page.slice(page.indexOf(`| \`${folder}/\` itself |`)).split('\n\n')[0] ?? '';
  return [...table.matchAll(/^\| `([\w-]+)\/`/gm)].map(([, name = '']) => (name === folder ? '' : name));
}

/** Files of a folder, and the files of the same folder that each imports, types included. */
async function importsOf(folder: string): Promise<[from: string, to: string][]> {
  const names = (await readdir(join(root, folder), { recursive: true })).filter((name) => name.endsWith('.ts'));
  const found = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(root, folder, name), 'utf8');
      const targets = [...text.matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].map(([, to = '']) => to);
      return targets.map((to) => [name, normalize(join(dirname(name), to))] as [string, string]);
    }),
  );
  return found.flat().filter(([, to]) => !to.startsWith('..'));
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
    const imports = await importsOf(folder);
    expect(imports.length).toBeGreaterThan(rooms.length);
    const upward = imports.filter(([from, to]) => rooms.indexOf(roomOf(to)) < rooms.indexOf(roomOf(from)));
    expect(upward.map(([from, to]) => `${folder}/${from} imports ${folder}/${to}, of a room above it`)).toEqual([]);
  });
});
