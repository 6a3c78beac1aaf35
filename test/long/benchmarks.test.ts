import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

const run = new URL('../../bench/run.ts', import.meta.url).pathname;
const suffix = '.bench.ts';
const files = await readdir(new URL('../../bench', import.meta.url));
const names = files.filter((file) => file.endsWith(suffix)).map((file) => file.slice(0, -suffix.length));

/** Whether each benchmark runs, which nobody sees otherwise before its figures are wanted. */
test.each(names)(
  'the benchmark %s comes to figures',
  async (name) => {
    const child = spawn(process.execPath, [run, '--short', '--only', name], { stdio: ['ignore', 'pipe', 'pipe'] });
    const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    expect({ code, errors }).toEqual({ code: 0, errors: '' });
    expect(out).toMatch(/ours/);
  },
  600_000,
);
