import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

const here = import.meta.dirname;
const require = createRequire(import.meta.url);
const patienceMs = 120_000;

let world: ApiWorld;
let owner: Client;
let server: string;
let folder: string;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  ({ server } = await world.place(owner));
  const cache = join(here, '..', '..', '.cache');
  await mkdir(cache, { recursive: true });
  folder = await mkdtemp(join(cache, 'clients-'));
  await writeFile(join(folder, 'openapi.json'), await (await fetch(`${world.url}/openapi.json`)).text());
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** Runs a program of Node in the folder of the generated code; its output is in the error of one that fails. */
async function run(program: string, ...args: string[]): Promise<string> {
  const running = promisify(execFile)(process.execPath, [program, ...args], { cwd: folder, timeout: patienceMs });
  const { stdout } = await running.catch((error: { stdout?: string; stderr?: string }) => {
    throw new Error(`${program} failed:\n${error.stdout?.slice(0, 3000)}\n${error.stderr?.slice(0, 3000)}`);
  });
  return stdout;
}

const bin = (name: string): string => join(here, 'node_modules', '.bin', name);

const strict = (
  '--noEmit --strict --skipLibCheck --allowImportingTsExtensions --verbatimModuleSyntax --noUncheckedIndexedAccess ' +
  '--module nodenext --target es2024 --lib es2024,dom,dom.iterable --types node'
).split(' ');

/** Compiles a program against what was generated, and runs it. */
async function use(template: string, ...args: string[]): Promise<string> {
  const file = `use-${template}`;
  await copyFile(join(here, `${template}.template`), join(folder, file));
  await run(join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc'), ...strict, file);
  return run(file, ...args);
}

it('the document is valid OpenAPI', async () => {
  const parser = await import('@readme/openapi-parser');
  expect(await parser.validate(join(folder, 'openapi.json'))).toMatchObject({ valid: true, warnings: [] });
});

it('openapi-typescript types a client that does what the document says', { timeout: patienceMs }, async () => {
  await run(bin('openapi-typescript'), 'openapi.json', '-o', 'typed.d.ts');
  expect(await use('openapi-fetch.ts', `${world.url}/default`, owner.token!, server)).toContain('done');
});

it('orval writes a client that does what the document says', { tags: 'long', timeout: patienceMs }, async () => {
  const output = { target: './orval.ts', client: 'fetch', baseUrl: `${world.url}/default` };
  const config = { setpoint: { input: './openapi.json', output } };
  await writeFile(join(folder, 'orval.config.mjs'), `export default ${JSON.stringify(config)};\n`);
  await run(bin('orval'), '--config', './orval.config.mjs');
  expect(await use('orval.ts', owner.token!, server)).toContain('done');
});
