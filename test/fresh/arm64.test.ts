import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { builtRelease } from '../harness/built-release.ts';
import { Installation } from '../harness/installation.ts';
import { mirror } from '../harness/package-sources.ts';
import { freePort } from '../harness/program.ts';
import { openTerminal } from '../harness/server-terminal.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const execute = promisify(execFile);
const bash = { shell: '/bin/bash', cols: 91, rows: 31 };
/** What has the libraries of the executable. */
const libraries = ['libc6', 'libgcc-s1', 'libstdc++6', 'libatomic1'];

test('the executable for arm64 runs an application and a terminal, and finds them again after a restart', async () => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-arm64-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const { http: image } = await ensureTestImages();
  const { executable } = await builtRelease('linux-arm64');
  const agentExecutable = await emulated(executable, folder);
  const town = stack.use(await Installation.start({ store: 'sqlite', agentExecutable }));
  const port = await freePort();
  const app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    exposed_port: port,
    healthcheck_path: '/healthz',
    env: { PORT: String(port), REVISION: 'one' },
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', 120_000);
  const answer = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/env/REVISION`)).text();
  expect(await answer()).toBe('one');
  const inTerminal = async (): Promise<void> => {
    const user = await openTerminal(town.client, town.server.id, bash);
    user.type('echo "it is $(stty size)"; exit 3\r');
    await user.shows('it is 31 91');
    await user.closed;
    expect(user.end()).toEqual({ type: 'exit', code: 3 });
  };
  await inTerminal();
  await town.agent.restart();
  await town.until('the agent is connected again', async () => {
    const it = await town.client.object('GET', `/api/v1/servers/${town.server.id}`);
    return it['agent_status'] === 'connected';
  });
  expect(await answer()).toBe('one');
  await inTerminal();
});

/**
 * Path of a program that runs an executable for arm64 here, with that platform's libraries of Debian. Nothing else is
 * taken from there, so that it sees the files of this machine.
 */
async function emulated(executable: string, folder: string): Promise<string> {
  const [downloads, root] = [join(folder, 'downloads'), join(folder, 'root')];
  const options = ['--download-only', '--arch=arm64', '--variant=minbase', `--include=${libraries.join(',')}`];
  await execute('debootstrap', [...options, 'bookworm', downloads, ...(await mirror())], {
    maxBuffer: 16 * 1024 * 1024,
  });
  const archives = join(downloads, 'var/cache/apt/archives');
  const names = (await readdir(archives)).filter((name) => libraries.some((it) => name.startsWith(`${it}_`)));
  for (const name of names) await execute('dpkg-deb', ['--extract', join(archives, name), root]);
  await rm(join(root, 'etc'), { recursive: true });
  const path = join(folder, 'agent');
  await writeFile(path, `#!/bin/sh\nexec qemu-aarch64-static -L '${root}' '${executable}' "$@"\n`, { mode: 0o755 });
  return path;
}
