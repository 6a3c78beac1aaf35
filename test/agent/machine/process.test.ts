import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { OutputLimitError, run } from '../../../agent/machine/process.ts';
import { until } from '../../harness/until.ts';

const signal = (): AbortSignal => AbortSignal.timeout(30_000);
const maxOutputBytes = 10_000;

describe('a program', () => {
  test('gets its arguments as they are, its input and no environment but its own', async () => {
    const script = 'cat; printf "|%s" "$@"; printf "|%s" "$SECRET" "$OWN" "$PWD" >&2; exit 3';
    process.env['SECRET'] = 'of the agent';
    const args = ['-c', script, 'sh', '$(id)', '; id', '-x', ''];
    const result = await run('sh', { args, env: { OWN: 'own' }, input: 'in', cwd: '/tmp', maxOutputBytes }, signal());
    delete process.env['SECRET'];
    expect(result).toEqual({ code: 3, stdout: 'in|$(id)|; id|-x|', stderr: '||own|/tmp' });
  });

  test('that does not exist says so', async () => {
    await expect(run('setpoint-absent', { args: [], maxOutputBytes }, signal())).rejects.toMatchObject({
      code: 'ENOENT',
    });
  });

  test('that writes too much is ended', async () => {
    const writing = run('sh', { args: ['-c', 'while :; do echo more; done'], maxOutputBytes }, signal());
    await expect(writing).rejects.toThrow(OutputLimitError);
  });

  test('that does not read its input may end', async () => {
    expect(await run('true', { args: [], input: 'x'.repeat(1_000_000), maxOutputBytes }, signal())).toMatchObject({
      code: 0,
    });
  });

  test('is ended with all that it started', async () => {
    const enough = new AbortController();
    const mark = '31536001';
    const script = `sleep ${mark} & trap '' TERM; sleep ${mark}`;
    const running = run('sh', { args: ['-c', script], maxOutputBytes }, enough.signal);
    await until('both run', async () => (await sleepers(mark)).length === 2);
    enough.abort(new Error('Enough'));
    await expect(running).rejects.toThrow('Enough');
    expect(await sleepers(mark)).toEqual([]);
  });

  test('leaves nothing behind when it ends by itself', async () => {
    const mark = '31536002';
    const script = `sleep ${mark} >/dev/null 2>&1 & echo done`;
    expect(await run('sh', { args: ['-c', script], maxOutputBytes }, signal())).toMatchObject({ stdout: 'done\n' });
    await until('the rest is gone', async () => (await sleepers(mark)).length === 0);
  });
});

async function sleepers(mark: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line === `sleep\0${mark}\0`);
}
