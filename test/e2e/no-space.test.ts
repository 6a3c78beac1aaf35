import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { diskSpace } from '../../agent/disk/disk-guard.ts';
import type { BuildOptions } from '../../agent/runtime/runtime.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { gitHttpServer, testRepositories } from '../harness/git-server.ts';
import type { TestGitServer, TestRepositories } from '../harness/git-server.ts';
import { brief, Installation } from '../harness/installation.ts';
import { intoNamespace } from '../harness/into-namespace.ts';
import { openImages } from '../harness/open-images.ts';
import { freePort } from '../harness/program.ts';
import { testRegistry } from '../harness/registry.ts';
import { smallDisk, type SmallDisk } from '../harness/small-disk.ts';
import { smallEngine } from '../harness/small-engine.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const exec = promisify(execFile);
const mebibyte = 1024 * 1024;

/** The tests tell one story: each begins where the one before ended. */
describe('an agent whose disk is full', () => {
  let disk: SmallDisk;
  let town: Installation;
  let repositories: TestRepositories;
  let git: TestGitServer;
  let image: string;
  let port: number;
  let app: ApiObject;

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    repositories = await testRepositories();
    git = await gitHttpServer(repositories);
    disk = await smallDisk(700 * mebibyte);
    town = await Installation.start({
      store: 'sqlite',
      agentData: join(disk.path, 'agent'),
      serverFlags: ['--build-deadline-seconds', '150', '--rollout-deadline-seconds', '150'],
    });
    port = await freePort();
    const repository = await repositories.create('app');
    await repository.commit({ Dockerfile: `FROM ${image}\nENV COLOUR=blue\n` });
    app = await town.createApplication({
      source_type: 'git',
      repository_url: `${git.url}/app.git`,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      exposed_port: port,
      healthcheck_path: '/healthz',
      ...brief,
      env: { PORT: String(port) },
    });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await disk[Symbol.asyncDispose]();
    await git[Symbol.asyncDispose]();
    await repositories[Symbol.asyncDispose]();
  });

  /** By a connection of its own: one that is kept goes on to the instance that is drained. */
  const colour = async (): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}/env/COLOUR`, { headers: { connection: 'close' } })).text();

  /** A repository that is small on the way and large on the disk. */
  async function large(bytes: number): Promise<string> {
    const repository = await repositories.create('large');
    const tree = await mkdtemp(join(tmpdir(), 'setpoint-large-'));
    const run = (...args: string[]) => exec('git', ['-C', tree, '-c', 'user.name=T', '-c', 'user.email=t@t', ...args]);
    await run('init', '--quiet', '--initial-branch=main');
    await writeFile(join(tree, 'Dockerfile'), `FROM ${image}\nCOPY . /app\n`);
    const part = Buffer.alloc(mebibyte, 'x'); // of zeros git would make a hole
    for (let written = 0; written < bytes; written += part.length) await appendFile(join(tree, 'large'), part);
    await run('add', '--all');
    await run('commit', '--quiet', '-m', 'Large');
    await run('push', '--quiet', repository.path, 'HEAD:refs/heads/main');
    await rm(tree, { recursive: true });
    return `${git.url}/large.git`;
  }

  it(
    'ends a build that does not fit with the reason; the older one serves and the next is fine',
    { tags: [longTag] },
    async () => {
      const path = `/api/v1/applications/${app.id}`;
      await town.client.request('PUT', path, { repository_url: await large(720 * mebibyte) });
      const failed = await town.deployment((await town.deploy(app.id)).id, 'failed', 140_000);
      expect(failed['error']).toMatchObject({ code: 'no_space', message: expect.stringMatching(/no space left/i) });
      expect(await colour()).toBe('blue');
      await town.until(
        'nothing of it is left',
        async () => (await readdir(join(disk.path, 'agent', 'work'))).length === 0,
      );

      const next = await repositories.create('next');
      await next.commit({ Dockerfile: `FROM ${image}\nENV COLOUR=green\n` });
      await town.client.request('PUT', path, { repository_url: `${git.url}/next.git` });
      await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
      expect(await colour()).toBe('green');
    },
  );

  it('goes on serving with not a byte left, also when the agent starts again, and deploys once there is room', async () => {
    const served = await colour();
    await disk.fill();
    for (let n = 0; n < 200; n++)
      expect((await fetch(`http://127.0.0.1:${port}/log/line-${n}`)).status).toBeLessThan(500);
    await town.agent.restart();
    await town.until('its agent is back', async () => {
      const it = await town.client.object('GET', `/api/v1/servers/${town.server.id}`);
      return it['agent_status'] === 'connected';
    });
    expect(await colour()).toBe(served);
    await disk.free();
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', 140_000);
    expect(await colour()).toBe(served);
  });
});

describe('an engine whose disk is full', () => {
  const signal = (): AbortSignal => AbortSignal.timeout(120_000);
  const built = (content: Buffer): BuildOptions => {
    const context = pack();
    context.entry({ name: 'Dockerfile' }, 'FROM scratch\nCOPY content /content\n');
    context.entry({ name: 'content' }, content);
    context.finalize();
    return {
      context: Readable.from(context),
      dockerfile: 'Dockerfile',
      tag: `t:${randomUUID()}`,
      buildArgs: {},
      labels: {},
    };
  };

  it('fails a build that does not fit with the reason, and takes one that fits', async () => {
    const content = randomBytes(150 * mebibyte);
    await using engine = await smallEngine(128 * mebibyte);
    const { runtime } = engine;
    const noSpace = { code: 'no_space', message: expect.stringMatching(/no space left on device/i) };
    await expect(runtime.build(built(content), () => undefined, signal())).rejects.toMatchObject(noSpace);
    await runtime.build(built(randomBytes(mebibyte)), () => undefined, signal());
  });

  it(
    'fails a step that writes until nothing is left with that reason, and takes the next build',
    { tags: 'long' },
    async () => {
      const { shell } = await ensureTestImages();
      await using engine = await smallEngine(256 * mebibyte);
      const moved = 'docker save "$1" | docker --host "unix://$2" load';
      await exec('sh', ['-c', moved, 'sh', shell, engine.socketPath]);
      const step = (run: string) =>
        engine.runtime.buildByKit(
          {
            dockerfile: Buffer.from(`FROM ${shell}\nRUN ${run}\n`),
            context: [],
            tag: `t:${randomUUID()}`,
            buildArgs: {},
            labels: {},
            scope: 'test',
            secrets: {},
          },
          () => undefined,
          signal(),
        );
      await expect(step('dd if=/dev/zero of=/filler bs=1M')).rejects.toMatchObject({
        code: 'no_space',
        retryable: true,
        message: expect.stringMatching(
          /^Build failed: \[2\/2\] RUN dd .*no space is left on the disk of the engine\n.*No space left/s,
        ),
      });
      await step('echo fits');
    },
  );

  it(
    'ends the pull of an image that unpacks to more than is free, and has its space back',
    { tags: 'long' },
    async () => {
      await using stack = new AsyncDisposableStack();
      const folder = await mkdtemp(join(tmpdir(), 'setpoint-pull-'));
      stack.defer(() => rm(folder, { recursive: true }));
      const registry = stack.use(await testRegistry(largeLayer(4096)));
      const engine = stack.use(await smallEngine(1024 * mebibyte));
      stack.use(await intoNamespace(engine.pid, registry.port));
      const clock = new FakeClock();
      const free = () => diskSpace([engine.path]);
      const images = await openImages(engine.runtime, folder, free, clock);
      const owner = { tenant: 'default', project: 'p', workload: 'w' };
      const before = await free();
      const pulled = images.resolve({ reference: registry.image, owner }, signal()).then(
        () => undefined,
        (error: unknown) => error,
      );
      let isOver = false;
      void pulled.then(() => (isOver = true));
      // The engine writes faster than the agent looks every two seconds.
      await until('the pull is over', async () => {
        await clock.advance(2_000);
        return isOver;
      });
      expect(await pulled).toMatchObject({
        code: 'no_space',
        message: expect.stringMatching(
          /^Cannot go on pulling image .* as less than 512 MiB of the server's disk are free/,
        ),
      });
      await until('the space is free again', async () => before.freeBytes - (await free()).freeBytes < 32 * mebibyte);
    },
  );
});

/** A compressed layer whose only file has so many mebibytes of zeros. */
function largeLayer(mebibytes: number): Buffer {
  const bytes = mebibytes * mebibyte;
  const header = Buffer.alloc(512);
  header.write('large');
  header.write('0000644\0', 100);
  header.write(`${bytes.toString(8).padStart(11, '0')}\0`, 124);
  header.write('ustar\x0000', 257);
  header.fill(' ', 148, 156);
  const sum = header.reduce((all, one) => all + one, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  const part = gzipSync(Buffer.alloc(16 * mebibyte));
  return Buffer.concat([gzipSync(header), ...Array.from({ length: mebibytes / 16 }, () => part)]);
}
