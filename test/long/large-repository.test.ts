import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sizeOf } from '../../agent/tasks/git-size.ts';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { gitHttpServer, testRepositories } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';
import { memoryOf } from '../harness/processes.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const MiB = 1024 ** 2;
const GiB = 1024 ** 3;
const fileBytes = 64 * MiB;
/** Files of the head, and of a commit before it which no longer has them. */
const [files, earlier] = [34, 8];
const patientMs = 15 * 60_000;
const lookMs = 50;

describe(`a repository of ${(files * fileBytes) / MiB} MiB, with ${(earlier * fileBytes) / MiB} MiB of history`, () => {
  const things = new AsyncDisposableStack();
  let url: string;

  beforeAll(async () => {
    const repositories = things.use(await testRepositories());
    const { path } = await repositories.create('large');
    const { shell } = await ensureTestImages();
    await fill(path, `FROM ${shell}\nCOPY small /small\n`);
    const server = things.use(await gitHttpServer(repositories));
    url = `${server.url}/large.git`;
  }, patientMs);
  afterAll(() => things.disposeAsync());

  async function createApplication(town: Installation): Promise<ApiObject> {
    const source = { repository_url: url, branch: 'main', dockerfile_path: 'Dockerfile' };
    return town.createApplication({ source_type: 'git', ...source, min_healthy_seconds: 0 });
  }

  it(
    'is built if the agent allows it, without its history, and with little memory of agent and git',
    async () => {
      await using town = await Installation.start({
        store: 'sqlite',
        agentFlags: ['--git-max-bytes', String(3 * GiB)],
      });
      const app = await createApplication(town);
      await using watch = watchAgent(town);
      const { id } = await town.deploy(app.id);
      await town.deployment(id, 'succeeded', patientMs);
      const seen = await watch.end();
      console.log(`With a limit above it: ${JSON.stringify(seen)}`);

      const [instance = ''] = await instancesOf(app.id);
      expect(await docker('exec', instance, '/bin/cat', '/small')).toBe('small');
      expect(seen.gitProcesses).toBeGreaterThan(0);
      expect(seen.packMiB).toBeGreaterThanOrEqual((files * fileBytes) / MiB);
      expect(seen.packMiB).toBeLessThan((files * fileBytes) / MiB + 64);
      expect(seen.agentMiB).toBeLessThan(256);
      expect(seen.gitMiB).toBeLessThan(256);
      expect(seen.isEachBounded).toBe(true);
      // a clone that is this large is not kept
      expect(await left(town)).toEqual({ work: [], clones: [] });
    },
    patientMs,
  );

  it(
    'is refused by default, with the limit and what to do, and leaves nothing on the disk',
    async () => {
      await using town = await Installation.start({ store: 'sqlite' });
      const app = await createApplication(town);
      await using watch = watchAgent(town);
      const { id } = await town.deploy(app.id);
      const failed = await town.until(
        'the deployment has failed',
        async () => {
          const it = await town.client.object('GET', `/api/v1/deployments/${id}`);
          return it.status === 'failed' ? it : undefined;
        },
        patientMs,
      );
      const seen = await watch.end();
      console.log(`With the usual limit: ${JSON.stringify(seen)}`);

      expect(JSON.stringify(failed['error'])).toContain(
        `Repository ${url} is not fetched as it is larger than 2 GiB, all that a build may fetch: ` +
          'keep large files out of it, deploy an image that was built elsewhere, or set SETPOINT_GIT_MAX_BYTES',
      );
      expect(await left(town)).toEqual({ work: [], clones: [] });
      expect(await docker('images', '--quiet', '--filter', `label=setpoint.server=${town.server.id}`)).toBe('');
      expect(seen.agentMiB).toBeLessThan(256);
      expect(seen.gitMiB).toBeLessThan(256);
    },
    patientMs,
  );
});

/** Writes two commits of random files straight into a bare repository. */
async function fill(path: string, dockerfile: string): Promise<void> {
  const settings = ['core.compression=0', 'core.bigFileThreshold=1m'].flatMap((one) => ['-c', one]);
  const child = spawn('git', ['-C', path, ...settings, 'fast-import', '--quiet'], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(child, 'close');
  const write = async (data: string | Buffer): Promise<void> => {
    if (!child.stdin.write(data)) await once(child.stdin, 'drain');
  };
  const file = async (name: string, content: Buffer): Promise<void> => {
    await write(`M 100644 inline ${name}\ndata ${content.length}\n`);
    await write(content);
    await write('\n');
  };
  const commit = async (message: string): Promise<void> =>
    write(
      `commit refs/heads/main\ncommitter Test <test@example.invalid> 1700000000 +0000\ndata ${message.length}\n${message}\n`,
    );
  await commit('Earlier');
  for (let n = 0; n < earlier; n++) await file(`earlier/${n}`, randomBytes(fileBytes));
  await commit('Head');
  await write('D earlier\n');
  for (let n = 0; n < files; n++) await file(`files/${n}`, randomBytes(fileBytes));
  await file('Dockerfile', Buffer.from(dockerfile));
  await file('small', Buffer.from('small'));
  child.stdin.end();
  const [code] = (await ended) as [number | null]; // what the event has
  if (code !== 0) throw new Error(`git fast-import ended with ${code}`);
  // its host packs nothing anew for each client
  for (const [name, value] of [
    ['core.bigFileThreshold', '1m'],
    ['core.compression', '0'],
  ] as const) {
    const set = spawn('git', ['-C', path, 'config', name, value], { stdio: 'inherit' });
    await once(set, 'close');
  }
}

/** What is left of tasks and of clones in the agent's folder. */
async function left(town: Installation): Promise<{ work: string[]; clones: string[] }> {
  const [work, clones] = ['work', 'clones'].map((name) => readdir(join(town.dir, 'agent', name)));
  return { work: (await work) ?? [], clones: (await clones) ?? [] };
}

/** The most that was seen until its end. */
interface Seen {
  seconds: number;
  /** Resident memory of the agent. */
  agentMiB: number;
  /** Memory of one process of git, without the files that it maps. */
  gitMiB: number;
  gitProcesses: number;
  /** Each of them had a bound of memory of 2 GiB or less. */
  isEachBounded: boolean;
  /** What was fetched. */
  packMiB: number;
}

/** Looks at the agent and its programs again and again. */
function watchAgent(town: Installation): AsyncDisposable & { end(): Promise<Seen> } {
  const from = performance.now();
  const owner = join(town.dir, 'agent');
  const bounds = new Map<string, boolean>();
  let [gitBytes, packBytes, isOver] = [0, 0, false];
  const looking = (async () => {
    while (!isOver) {
      for (const pid of await gitsOf(owner)) {
        const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
        gitBytes = Math.max(gitBytes, Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024);
        const limits = await readFile(`/proc/${pid}/limits`, 'utf8').catch(() => '');
        const bound = /^Max data size +(\S+)/m.exec(limits)?.[1];
        if (bound !== undefined) bounds.set(pid, Number(bound) <= 2 * GiB);
      }
      for (const task of await readdir(join(owner, 'work')).catch(() => []))
        packBytes = Math.max(packBytes, await sizeOf(join(owner, 'work', task, 'git/objects/pack')));
      await delay(lookMs);
    }
  })();
  const end = async (): Promise<Seen> => {
    isOver = true;
    await looking;
    const inMiB = (bytes: number): number => Math.round(bytes / MiB);
    return {
      seconds: Math.round((performance.now() - from) / 1000),
      agentMiB: inMiB(await memoryOf(town.agent.pid, 'VmHWM')),
      gitMiB: inMiB(gitBytes),
      gitProcesses: bounds.size,
      isEachBounded: [...bounds.values()].every((it) => it),
      packMiB: inMiB(packBytes),
    };
  };
  return {
    end,
    async [Symbol.asyncDispose]() {
      isOver = true;
      await looking;
    },
  };
}

/** Processes of git that the agent started, or one of them: they name their owner in their environment. */
async function gitsOf(owner: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    ids.map(async (id) => {
      const [name, environment] = await Promise.all(
        ['comm', 'environ'].map((file) => readFile(`/proc/${id}/${file}`, 'utf8').catch(() => '')),
      );
      return name?.startsWith('git') === true && environment?.includes(`=${owner}\0`) === true ? [id] : [];
    }),
  );
  return found.flat();
}
