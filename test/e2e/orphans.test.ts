import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { hangingServer, type TestGitServer } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';

let town: Installation;
let hanging: TestGitServer;

beforeAll(async () => {
  hanging = await hangingServer();
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await hanging[Symbol.asyncDispose]();
});

/** Processes with that word among their arguments. */
async function pidsWith(word: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    ids.map(async (id) => ((await readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')).includes(word) ? [id] : [])),
  );
  return found.flat();
}

it('what an agent that was killed in the middle of a clone left is gone when the next one runs', async () => {
  const app = await town.createApplication({
    source_type: 'git',
    repository_url: `${hanging.url}/app.git`,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
  await town.deploy(app.id);
  await town.until('git fetches', async () => (await pidsWith(hanging.url)).length > 0);
  const work = join(town.dir, 'agent', 'work');
  const [before] = await readdir(work);
  await town.agent.kill();
  const orphans = new Set(await pidsWith(hanging.url));
  expect(orphans.size).toBeGreaterThan(0);

  town.agent.start();
  await town.until('the next agent fetches', async () => {
    const now = await pidsWith(hanging.url);
    return now.length > 0 && now.every((pid) => !orphans.has(pid));
  });
  expect(await readdir(work)).not.toContain(before);
});
