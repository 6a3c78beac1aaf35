import { expect, test } from 'vitest';
import { bounded } from '../../../agent/machine/bounded.ts';
import { run } from '../../../agent/machine/process.ts';

const signal = (): AbortSignal => AbortSignal.timeout(30_000);
const MiB = 1024 ** 2;

async function output(program: string, ...args: string[]): Promise<{ code: number | undefined; stdout: string }> {
  const it = bounded(program, args, 64 * MiB);
  const { code, stdout } = await run(it.shell, { args: it.args, maxOutputBytes: MiB }, signal());
  return { code, stdout };
}

test('a bounded program has its bound of memory, and the kernel ends it before others', async () => {
  const { stdout } = await output('cat', '/proc/self/limits', '/proc/self/oom_score_adj');
  expect(stdout).toMatch(new RegExp(`^Max data size +${64 * MiB} +${64 * MiB} +bytes`, 'm'));
  expect(stdout.trim().split('\n').at(-1)).toBe('500');
});

test('a bounded program gets no more memory than that', async () => {
  expect(await output('dd', 'if=/dev/zero', 'of=/dev/null', 'bs=16M', 'count=1')).toMatchObject({ code: 0 });
  expect(await output('dd', 'if=/dev/zero', 'of=/dev/null', 'bs=128M', 'count=1')).toMatchObject({ code: 1 });
});

test('a bounded program gets its arguments as they are', async () => {
  const args = ['a b', '$HOME', '"; id', '', '-n', '*', "'"];
  expect(await output('printf', '%s\n', ...args)).toEqual({ code: 0, stdout: `${args.join('\n')}\n` });
});
