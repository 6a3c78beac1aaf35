import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDockerfile } from '../../agent/tasks/dockerfile.ts';
import { recipeOf } from '../../manifests/runtimes/recipe.ts';
import { FunctionRuntime } from '../../store/kinds/function.ts';
import { freePort } from '../harness/program.ts';
import { until } from '../harness/until.ts';

let folder: string;
let child: ChildProcess | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-launcher-'));
});
afterEach(async () => {
  child?.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

const dependencies = {
  node20: '{"left-pad":"1.3.0"}',
  bun: '{"left-pad":"1.3.0"}',
  go: '{"github.com/google/uuid":"v1.6.0"}',
  python3: '["requests==2.32.3"]',
  deno: '{"imports":{"oak":"jsr:@oak/oak@17"}}',
} as const;

describe.each(FunctionRuntime.options)('the image of %s', (runtime) => {
  it('is built of its base alone, by every engine, with and without dependencies', () => {
    for (const needed of [undefined, dependencies[runtime]])
      for (const kit of [undefined, 20]) {
        const { dockerfile, files } = recipeOf({ runtime, code: 'code', dependencies: needed, base: 'base:1' });
        const { images } = readDockerfile(Buffer.from(dockerfile), {}, kit === undefined ? {} : { kit });
        expect(images.map(({ reference }) => reference)).toEqual(['base:1']);
        const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \.\/$/gm)].flatMap(([, names = '']) =>
          names.split(' '),
        );
        expect(copied.toSorted()).toEqual(Object.keys(files).toSorted());
      }
  });
});

it('the image of deno lets code use each folder that its container has, such as a volume', () => {
  const { dockerfile } = recipeOf({ runtime: 'deno', code: 'code', dependencies: undefined, base: undefined });
  const entry = dockerfile.split('\n').find((line) => line.startsWith('ENTRYPOINT')) ?? '';
  expect(entry.match(/--allow-(?:read|write)[^"]*/g)).toEqual(['--allow-read', '--allow-write']);
});

/** Runs the launcher of a runtime with this code; resolves with its exit code and what it wrote. */
async function check(code: string): Promise<{ exitCode: number; output: string }> {
  await write(code);
  const checked = spawn(process.execPath, ['launcher.mjs', '--check'], { cwd: folder });
  let output = '';
  checked.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [exitCode] = await once(checked, 'close');
  return { exitCode, output };
}

async function write(code: string): Promise<void> {
  const { files } = recipeOf({ runtime: 'node20', code, dependencies: undefined, base: undefined });
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
}

describe('the launcher of node20', () => {
  it('loads the handler once, and says what is wrong with it', async () => {
    expect(await check('export default () => new Response("Hello"); setInterval(() => {}, 1000)')).toMatchObject({
      exitCode: 0,
    });
    const wrong = await check('export const handler = () => 1');
    expect([wrong.exitCode, wrong.output]).toEqual([1, expect.stringContaining('must export its handler')]);
    const broken = await check('export default (request) => {');
    expect([broken.exitCode, broken.output]).toEqual([1, expect.stringContaining('SyntaxError')]);
    const lacking = await check("import a from 'no-such-package'; export default () => a");
    expect([lacking.exitCode, lacking.output]).toEqual([1, expect.stringContaining('no-such-package')]);
  });

  it('does not take a variable that the build has not for a fault of the code', async () => {
    for (const line of [
      'new URL(process.env.DATABASE_URL)',
      'JSON.parse(process.env.SETTINGS)',
      'throw "no database"',
    ]) {
      const read = await check(`${line};\nexport default () => new Response("Hello")`);
      expect([read.exitCode, read.output]).toEqual([0, expect.stringContaining('The build has no variables')]);
    }
  });

  it('gives the handler the whole request, and sends its answer as it is', async () => {
    await write(`export default async (request) => {
      if (request.url.endsWith('/throw')) throw new Error('boom');
      if (request.url.endsWith('/wrong')) return 'text';
      const headers = new Headers({ 'x-method': request.method, 'x-url': request.url, 'content-type': 'text/x' });
      headers.append('set-cookie', 'a=1');
      headers.append('set-cookie', 'b=2');
      return new Response(request.body, { status: 201, headers });
    }`);
    const port = await freePort();
    child = spawn(process.execPath, ['launcher.mjs'], { cwd: folder, env: { SETPOINT_PORT: String(port) } });
    let written = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (written += text));
    const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { method: 'PUT', body: 'Grüße' });
    const answer = await until('it answers', () => ask('/a?b=c').catch(() => false as const));
    expect([answer.status, await answer.text(), answer.headers.getSetCookie()]).toEqual([201, 'Grüße', ['a=1', 'b=2']]);
    expect(answer.headers.get('x-url')).toBe(`http://127.0.0.1:${port}/a?b=c`);
    expect((await ask('/throw')).status).toBe(500);
    expect((await ask('/wrong')).status).toBe(500);
    expect(written).toMatch(/boom[^]*must return a Response/);
  });
});
