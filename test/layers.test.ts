import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

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
