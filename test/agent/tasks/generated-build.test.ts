import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TaskSpec } from '../../../agent-protocol/task-types.ts';
import { diskGuard } from '../../../agent/disk/disk-guard.ts';
import { ImageRecord } from '../../../agent/engine/image-record.ts';
import { imageStore } from '../../../agent/engine/image-store.ts';
import { registryGuard } from '../../../agent/engine/registry-guard.ts';
import { BridgeGuard } from '../../../agent/ports/step-guard.ts';
import type { BuildProgress } from '../../../agent/tasks/build-progress.ts';
import { runBuild, type BuildDeps, type BuiltImage } from '../../../agent/tasks/build.ts';
import { buildTask } from '../../../agent/tasks/build-task.ts';
import { dockerfilePreview } from '../../../agent/tasks/generated-dockerfile.ts';
import { git } from '../../../agent/tasks/git.ts';
import type { TaskItem } from '../../../agent/tasks/task.ts';
import { Turns } from '../../../agent/tasks/turns.ts';
import { openWorkFolder } from '../../../agent/tasks/work-folder.ts';
import { systemClock } from '../../../time/clock.ts';
import { engineCall, testDocker, type TestDocker } from '../../harness/docker.ts';
import { testRepositories, type GitFiles, type TestRepositories } from '../../harness/git-server.ts';
import { privateRegistry } from '../../harness/private-registry.ts';
import { ensureRichImage, ensureTestImages } from '../../harness/test-image.ts';

/** Stands for the registry of the base images. What is built needs a shell of the image of the web server, no more. */
const registry = 'bases.test/hub';
const webServer = `${registry}/caddy`;

let docker: TestDocker;
let repositories: TestRepositories;
let deps: BuildDeps;

const signal = (): AbortSignal => AbortSignal.timeout(60_000);

beforeAll(async () => {
  const { shell } = await ensureTestImages();
  await engineCall('POST', `/images/${encodeURIComponent(shell)}/tag?repo=${webServer}&tag=2-alpine`);
  docker = await testDocker();
  repositories = await testRepositories();
  deps = {
    runtime: docker.runtime,
    git: git({ clock: systemClock, protocols: ['file'], fileRoots: [repositories.folder], loopback: true }),
    folder: await openWorkFolder(join(repositories.folder, 'work')),
    images: imageStore({
      runtime: docker.runtime,
      disk: diskGuard(() => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 })),
      registries: registryGuard(() => ['127.0.0.1:1']),
      record: await ImageRecord.open(join(repositories.folder, 'images.json')),
      localImages: [`${registry}/*`],
      clock: systemClock,
    }),
    steps: new BridgeGuard(docker.server, {
      runtime: docker.runtime,
      clock: systemClock,
      log: pino({ enabled: false }),
    }),
    server: docker.server,
  };
});
afterAll(async () => {
  await engineCall('DELETE', `/images/${webServer}:2-alpine`);
  await docker[Symbol.asyncDispose]();
  await repositories[Symbol.asyncDispose]();
});

async function item(files: GitFiles, spec: Partial<TaskSpec<'build'>> = {}): Promise<TaskItem<'build'>> {
  const made = await repositories.create(randomUUID());
  await made.commit(files, { message: 'Say hello' });
  return {
    id: randomUUID(),
    generation: 1,
    spec_hash: 'hash',
    tenant: 'default',
    project_id: randomUUID(),
    environment_id: randomUUID(),
    workload_kind: 'application',
    workload_id: randomUUID(),
    workload_name: 'shop',
    service: 'main',
    run: 'running',
    spec: {
      type: 'build',
      repository_url: made.fileUrl,
      branch: 'main',
      dockerfile_path: 'auto',
      build_context: '.',
      build_args: { BASE_REGISTRY: registry },
      generate: { port: 8090, has_command: false, app_type: 'web' },
      image: `setpoint/built-${randomUUID().slice(0, 6)}:1`,
      deadline_seconds: 600,
      attempt: 1,
      ...spec,
    },
  };
}

const noProgress: BuildProgress = { line: () => undefined, checkedOut: () => undefined, at: () => undefined };

function build(it: TaskItem<'build'>, progress: Partial<BuildProgress> = {}): Promise<BuiltImage> {
  return runBuild(it, deps, { ...noProgress, ...progress }, signal());
}

/** What a program of the image writes. */
async function outputOf(image: string, command: string[]): Promise<string> {
  const id = await docker.runtime.create(docker.spec({ image, command }), signal());
  const attached = Promise.withResolvers<void>();
  const chunks = docker.runtime.output(id, { attached: attached.resolve }, signal());
  await attached.promise;
  await docker.runtime.start(id, signal());
  let text = '';
  for await (const { data } of chunks) text += Buffer.from(data).toString();
  return text;
}

test('without a Dockerfile one is generated, shown in the log, and built; what runs has no rights', async () => {
  const wanted = await item({
    'index.html': '<h1>Hello</h1>',
    'assets/a.css': 'a {}',
    '.dockerignore': '!node_modules\n',
    'node_modules/kept': '',
    'Dockerfile.old': 'FROM nothing',
  });
  const lines: string[] = [];
  const built = await build(wanted, { line: (text) => lines.push(text) });
  const shown = lines.slice(lines.indexOf('The Dockerfile:') + 1);
  expect(lines.slice(2, 4)).toEqual([
    'Generates a Dockerfile, as dockerfile_path is auto',
    '  index.html: the files of the repository are served',
  ]);
  const text = (built.dockerfile ?? '').trimEnd().split('\n');
  expect(text.length).toBeGreaterThan(10);
  expect(shown.slice(0, text.length)).toEqual(text.map((line) => `  ${line}`));
  expect(await outputOf(built.image, ['/bin/id', '-u'])).toBe('10001\n');
  expect(await outputOf(built.image, ['/bin/ls', '/srv'])).toBe('assets\nindex.html\nnode_modules\n');
  expect(await outputOf(built.image, ['/bin/cat', '/etc/caddy/Caddyfile'])).toContain(
    ':{$PORT:8080} {\n  root * /srv\n',
  );
});

test('the same commit gives the same Dockerfile, and the same as is shown before', async () => {
  const wanted = await item({ 'site/index.html': 'x' }, { build_context: 'site' });
  const [one, two] = [await build(wanted), await build({ ...wanted, id: randomUUID() })];
  expect(two.dockerfile).toBe(one.dockerfile);
  const { repository_url, branch, build_context, build_args, generate } = wanted.spec;
  if (generate === undefined) throw new Error('The item has no settings to generate by');
  const query = { repository_url, branch, build_context, build_args: Object.keys(build_args), generate };
  expect(
    await dockerfilePreview({ ...deps, disk: { check: () => Promise.resolve() }, clock: systemClock })(query, signal()),
  ).toMatchObject({
    commit: one.commit,
    language: 'static',
    dockerfile: one.dockerfile,
    ignore: expect.arrayContaining(['.git']),
  });
});

test('a build that fails after it was generated reports the Dockerfile, and its successor its own', async () => {
  const learned: object[] = [];
  const turns = new Turns(1);
  const task = buildTask({
    build: (it, progress, over) => runBuild(it, deps, progress, over),
    turns,
    built: () => undefined,
  });
  const files = { 'package.json': '{"scripts":{"start":"node a.js"}}' };
  const progress = { line: () => undefined, at: () => undefined, learned: (known: object) => void learned.push(known) };
  await expect(task.run(await item(files), progress, signal())).rejects.toMatchObject({ code: 'image_not_allowed' });
  expect(learned.at(-1)).toMatchObject({ dockerfile: expect.stringContaining('CMD ["node", "a.js"]') });
});

test('a generated Dockerfile is built upon what the tag of its base names now, and one of the repository is not', async () => {
  await using hub = await privateRegistry();
  const [before, after] = [(await ensureTestImages()).shell, await ensureRichImage()];
  const base = 'hub/caddy:2-alpine';
  const images = imageStore({
    runtime: docker.runtime,
    disk: diskGuard(() => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 })),
    registries: registryGuard(() => [hub.address]),
    record: await ImageRecord.open(join(repositories.folder, 'images-of-hub.json')),
    localImages: [],
    clock: systemClock,
  });
  const made = async (it: TaskItem<'build'>, lines: string[] = []): Promise<string> => {
    const access = { registry: hub.address, username: hub.username, password: hub.password };
    images.logins.learn({ [it.workload_id]: access }, false);
    const progress = { ...noProgress, line: (text: string) => void lines.push(text) };
    const { image } = await runBuild({ ...it, id: randomUUID() }, { ...deps, images }, progress, signal());
    return outputOf(image, ['/bin/sh', '-c', 'cat /seed/greeting || echo before']);
  };
  const files = { 'index.html': 'x', Dockerfile: `FROM ${hub.address}/${base}\nCOPY index.html /\n` };
  const generated = await item(files, { build_args: { BASE_REGISTRY: `${hub.address}/hub` } });
  const written = { ...generated, spec: { ...generated.spec, dockerfile_path: 'Dockerfile' } };

  await hub.push(before, base);
  const later = await hub.push(after, 'hub/caddy:later');
  expect(await made(generated)).toContain('before');
  await hub.move(base, later);
  expect(await made(written)).toContain('before');
  expect(await made(generated)).not.toContain('before');
  await hub.stop();
  const lines: string[] = [];
  expect(await made(generated, lines)).not.toContain('before');
  expect(lines.join('\n')).toContain('the one on the server is used');
});

describe('a repository of which none can be generated', () => {
  test('fails with what to add', async () => {
    await expect(build(await item({ 'README.md': '' }))).rejects.toMatchObject({
      code: 'dockerfile_not_found',
      retryable: false,
      message: expect.stringMatching(/none of package\.json, .*Add one of them, add a Dockerfile/),
    });
  });

  test.each<[string, GitFiles, string]>([
    ['has a link that leads out', { 'package.json': { link: '/etc/passwd' } }, 'path_outside_repository'],
    ['has a package.json of 10 MB', { 'package.json': ' '.repeat(10 * 1024 * 1024) }, 'invalid_source'],
  ])('as it %s is refused', async (_, files, code) => {
    await expect(build(await item(files))).rejects.toMatchObject({ code });
  });

  test('a file with the name auto is built from where its path says so', async () => {
    const wanted = await item({ auto: `FROM ${webServer}:2-alpine\n` }, { dockerfile_path: './auto' });
    expect(await build(wanted)).not.toHaveProperty('dockerfile');
  });
});
