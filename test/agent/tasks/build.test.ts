import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, writeFile, mkdir } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import type { TaskSpec } from '../../../agent-protocol/task-types.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Progress } from '../../../agent-protocol/workload.ts';
import { diskGuard } from '../../../agent/disk/disk-guard.ts';
import { ImageRecord } from '../../../agent/engine/image-record.ts';
import { ImageCollector } from '../../../agent/engine/image-collector.ts';
import { imageStore } from '../../../agent/engine/image-store.ts';
import { chainsOf } from '../../../agent/ports/rules.ts';
import { BridgeGuard } from '../../../agent/ports/step-guard.ts';
import { registryGuard } from '../../../agent/engine/registry-guard.ts';
import { labels, type ContainerRuntime } from '../../../agent/runtime/runtime.ts';
import { runBuild, type BuildDeps, type BuiltImage } from '../../../agent/tasks/build.ts';
import { git } from '../../../agent/tasks/git.ts';
import { openWorkFolder } from '../../../agent/tasks/work-folder.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { engineCall, testDocker, type TestDocker } from '../../harness/docker.ts';
import {
  testRepositories,
  type GitFiles,
  type TestRepositories,
  type TestRepository,
} from '../../harness/git-server.ts';
import { ensureTestImages } from '../../harness/test-image.ts';
import { until } from '../../harness/until.ts';
import { longTag } from '../../layer-report.ts';

let docker: TestDocker;
let base: string;
let http: string;
let repositories: TestRepositories;
let deps: BuildDeps;
/** The same on an engine without BuildKit. */
let classic: BuildDeps;

const exec = promisify(execFile);
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

beforeAll(async () => {
  ({ shell: base, http } = await ensureTestImages());
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
      localImages: ['setpoint-test/*'],
      clock: systemClock,
    }),
    steps: new BridgeGuard(docker.server, {
      runtime: docker.runtime,
      clock: systemClock,
      log: pino({ enabled: false }),
    }),
    server: docker.server,
  };
  classic = { ...deps, runtime: { ...docker.runtime, builder: async () => ({ type: 'classic' }) } };
});
afterAll(async () => {
  expect(await readdir(join(repositories.folder, 'work'))).toEqual([]);
  await docker[Symbol.asyncDispose]();
  await repositories[Symbol.asyncDispose]();
});

async function repository(files: GitFiles): Promise<TestRepository> {
  const made = await repositories.create(randomUUID());
  await made.commit(files, { message: 'Say hello' });
  return made;
}

function item(url: string, spec: Partial<TaskSpec<'build'>> = {}): WireAssignment & { spec: TaskSpec<'build'> } {
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
      repository_url: url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      build_context: '.',
      build_args: {},
      image: `setpoint/built-${randomUUID().slice(0, 6)}:1`,
      deadline_seconds: 600,
      attempt: 1,
      ...spec,
    },
  };
}

const checkedOut = (): void => undefined;
const at = (): void => undefined;

const build = (
  wanted: ReturnType<typeof item>,
  line: (text: string) => void = () => undefined,
  by = deps,
): Promise<BuiltImage> => runBuild(wanted, by, { line, checkedOut, at }, signal());

/** Instructions that BuildKit did not carry out again, but for FROM: the image is the same for all. */
const cachedSteps = (lines: readonly string[]): string[] =>
  lines
    .flatMap((text) => /^#(\d+) CACHED$/.exec(text)?.[1] ?? [])
    .flatMap((nth) => lines.flatMap((text) => new RegExp(`^#${nth} \\[.*?\\] (\\w+)`).exec(text)?.[1] ?? []))
    .filter((name) => name !== 'FROM');

/** What the programs of steps wrote. */
const said = (lines: readonly string[]): string[] => lines.flatMap((text) => /^#\d+ [\d.]+ (.*)/.exec(text)?.[1] ?? []);

async function failure(files: GitFiles, spec: Partial<TaskSpec<'build'>> = {}): Promise<unknown> {
  const { fileUrl } = await repository(files);
  return build(item(fileUrl, spec)).then(
    () => Promise.reject(new Error('The build did not fail')),
    (error: unknown) => error,
  );
}

/** What a container of the image writes. */
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

test('a repository becomes an image that bears its commit and its owner', async () => {
  const made = await repository({
    Dockerfile: `FROM ${base}\nARG GREETING=none\nENV SAID=$GREETING\nCOPY . /app\nRUN echo building\nCMD ["/bin/cat", "/app/hello"]`,
    hello: 'hello from git',
    'deep/folder/run.sh': { executable: 'echo run' },
    same: { link: 'deep/folder' },
    '.dockerignore': 'secret\n',
    secret: 'not for the image',
  });
  const wanted = item(made.fileUrl, { build_args: { GREETING: 'good $day "x"' } });
  const lines: string[] = [];
  const built = await build(wanted, (text) => lines.push(text));
  const commit = await deps.git.head({ url: made.fileUrl, branch: 'main' }, signal());
  expect(built).toMatchObject({ commit, commitMessage: 'Say hello', digest: built.image });
  expect(lines.slice(0, 3)).toEqual([
    `Cloning ${made.fileUrl}, branch main`,
    `Checked out ${commit} Say hello`,
    `Looks for image ${base}`,
  ]);
  expect(said(lines)).toContain('building');
  expect(lines.at(-1)).toBe(`Built ${wanted.spec.image}`);
  const image = (await engineCall('GET', `/images/${built.image}/json`)) as {
    Config: { Labels: object; Env: string[] };
  };
  expect(image.Config.Labels).toMatchObject({
    [labels.server]: docker.server,
    [labels.workload]: wanted.workload_id,
    [labels.tenant]: 'default',
    [labels.project]: wanted.project_id,
    'org.opencontainers.image.revision': commit,
  });
  expect(image.Config.Env).toContain('SAID=good $day "x"');
  expect(await outputOf(built.image, ['/bin/cat', '/app/hello', '/app/same/run.sh'])).toBe('hello from gitecho run');
  expect(await outputOf(built.image, ['/bin/ls', '-A', '/app'])).toBe('Dockerfile\ndeep\nhello\nsame\n');
  expect(lines.join('\n')).not.toContain('LABEL');
});

describe('a repository as people have them', () => {
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`;
  const files = (): GitFiles => ({
    'docker/Dockerfile': [
      '# what is built',
      'FROM nowhere.test/unused AS tests',
      `FROM ${base} AS build-amd64`,
      `FROM ${base} AS build-arm64`,
      'FROM --platform=$BUILDPLATFORM build-${TARGETARCH} AS build',
      'COPY . /app',
      `FROM ${base}`,
      'COPY --from=3 /app /app',
    ].join('\n'),
    'docker/Dockerfile.dockerignore': 'secret\n',
    '.dockerignore': 'hello\n',
    hello: 'hello',
    secret: 'not for the image',
    absolute: { link: '/etc/hostname' },
    outward: { link: '../../x' },
    'models/a.bin': pointer,
    lib: { submodule: 'a'.repeat(40) },
  });

  async function withOddName(made: TestRepository): Promise<void> {
    const importing = exec('git', ['-C', made.path, 'fast-import', '--quiet']);
    const head = 'commit refs/heads/main\ncommitter Test <test@example.invalid> 1700000000 +0000\ndata 3\nOdd\n';
    importing.child.stdin?.end(`${head}from refs/heads/main^0\nM 100644 inline "caf\\351"\ndata 3\nodd\n`);
    await importing;
  }

  test.each(['buildkit', 'classic'] as const)('is built by %s', async (type) => {
    const made = await repository(files());
    await withOddName(made);
    const lines: string[] = [];
    const wanted = item(made.fileUrl, { dockerfile_path: 'docker/Dockerfile' });
    const platform = (await deps.runtime.builder(signal())).platform ?? '';
    const by = {
      ...classic,
      runtime: { ...docker.runtime, builder: async () => ({ type: 'classic' as const, platform }) },
    };
    const built = await build(wanted, (text) => lines.push(text), type === 'classic' ? by : deps);
    const listed = (await outputOf(built.image, ['/bin/ls', '-A', '/app'])).split('\n');
    expect(listed).toEqual(
      expect.arrayContaining(['absolute', 'hello', 'models', ...(type === 'buildkit' ? ['outward'] : [])]),
    );
    expect(listed.some((name) => name.startsWith('caf'))).toBe(type === 'buildkit');
    expect(listed).not.toContain('secret');
    expect(await outputOf(built.image, ['/bin/ls', '-A', '/app/docker'])).toBe('Dockerfile\n');
    const log = lines.join('\n');
    expect(log).toContain('Leaves out submodules, whose folders are empty: lib. Set submodules');
    expect(log).toContain('Files of Git LFS stay pointers, as what they stand for is not fetched: models/a.bin');
    expect(log).not.toContain('nowhere.test');
    expect(log.includes('Leaves out outward: it leads out of the build context')).toBe(type === 'classic');
  });

  test('is built at a tag', async () => {
    const made = await repository({ Dockerfile: `FROM ${base}`, hello: 'one' });
    await exec('git', ['-C', made.path, 'tag', 'v1', 'main']);
    const { commit } = await build(item(made.fileUrl, { branch: 'v1' }));
    await made.commit({ Dockerfile: 'FROM nothing' });
    expect((await build(item(made.fileUrl, { branch: 'v1' }))).commit).toBe(commit);
    expect((await build(item(made.fileUrl, { branch: commit }))).commit).toBe(commit);
  });

  test('with keys in its arguments, and names that only programs read', async () => {
    const key = '-----BEGIN KEY-----\nabc+/=\n-----END KEY-----\n';
    const made = await repository({ Dockerfile: `FROM ${base}\nARG KEY\nARG my.arg\nRUN echo "<$KEY>"` });
    const lines: string[] = [];
    await build(item(made.fileUrl, { build_args: { KEY: key, 'my.arg': 'dotted', 'MY-KEY': 'x' } }), (text) =>
      lines.push(text),
    );
    expect(said(lines)).toEqual(['<-----BEGIN KEY-----', 'abc+/=', '-----END KEY-----', '>']);
  });

  test('fails by the line and the words of its author', async () => {
    const text = `# first\nFROM ${base} AS build\n\nLABEL a=b\nRUN echo \\\n  one\nRUN echo why; \\\n  exit 7\n`;
    const { fileUrl } = await repository({ Dockerfile: text });
    for (const by of [deps, classic]) {
      const lines: string[] = [];
      const error: unknown = await build(item(fileUrl), (line) => lines.push(line), by).catch((it: unknown) => it);
      expect(error).toMatchObject({
        code: 'build_failed',
        message: 'Build failed: Dockerfile line 7: RUN echo why; exit 7: exit code: 7\nwhy',
      });
      expect(lines.join('\n')).not.toMatch(/LABEL (?!a=b)/);
    }
  });
});

test('a build reports the commit before anything of it can fail', async () => {
  const { fileUrl } = await repository({ hello: 'no Dockerfile' });
  const sources: unknown[] = [];
  const progress = { at, line: () => undefined, checkedOut: (source: unknown) => void sources.push(source) };
  await expect(runBuild(item(fileUrl), deps, progress, signal())).rejects.toMatchObject({
    code: 'dockerfile_not_found',
  });
  const commit = await deps.git.head({ url: fileUrl, branch: 'main' }, signal());
  expect(sources).toEqual([{ commit, commitMessage: 'Say hello' }]);
});

test('a build reports what it does: it clones, looks for images, and carries out one step after the other', async () => {
  const { fileUrl } = await repository({
    Dockerfile: `FROM ${base}\nRUN echo "Step 9/9 : RUN pretends"; echo "Step 1/4 : goes back"\nRUN echo ${randomUUID()}`,
  });
  const seen: Progress[] = [];
  const progress = { line: () => undefined, checkedOut, at: (step: Progress) => void seen.push(step) };
  await runBuild(item(fileUrl), deps, progress, signal());
  // The engine tells of several steps at once if they are quick.
  const steps = seen.splice(3);
  expect(seen).toEqual([
    { step: 'cloning' },
    { step: 'resolving', done: 0, total: 1, unit: 'images' },
    { step: 'uploading' },
  ]);
  const [done, totals] = [steps.map((step) => step.done ?? NaN), steps.map((step) => step.total ?? NaN)];
  expect(steps).toEqual(done.map((count, at) => ({ step: 'building', total: totals[at], unit: 'steps', done: count })));
  // it may tell of the first step before it knows of the others, and says then how many they are
  expect(new Set(steps.map((step) => `${step.done} of ${step.total}`)).size).toBe(steps.length);
  expect(done).toEqual(done.toSorted((a, b) => a - b));
  expect(totals).toEqual(totals.toSorted((a, b) => a - b));
  expect(totals.at(-1)).toBe(3);
  expect(done.at(-1)).toBe(3);
  seen.length = 0;
  await runBuild(item(fileUrl), classic, progress, signal());
  const classically = { step: 'building', total: 5, unit: 'steps' };
  expect(seen).toEqual([
    { step: 'cloning' },
    { step: 'resolving', done: 0, total: 1, unit: 'images' },
    { step: 'uploading' },
    { ...classically, done: 0 },
    { ...classically, done: 1 },
    { ...classically, done: 2 },
    { ...classically, done: 3 },
    { ...classically, done: 4 },
  ]);
});

test('a build that is repeated takes everything but its labels from the cache', { tags: [longTag] }, async () => {
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nCOPY . /app\nRUN echo ${randomUUID()}` });
  const wanted = item(fileUrl);
  await build(wanted);
  const lines: string[] = [];
  await build({ ...item(fileUrl), project_id: wanted.project_id }, (text) => lines.push(text));
  expect(cachedSteps(lines)).toEqual(['COPY', 'RUN']);
});

test(
  'a build that is repeated by the classic builder takes everything but its labels from the cache',
  { tags: [longTag] },
  async () => {
    const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nCOPY . /app\nRUN echo ${randomUUID()}` });
    const wanted = item(fileUrl);
    await build(wanted, undefined, classic);
    const lines: string[] = [];
    await build({ ...item(fileUrl), project_id: wanted.project_id }, (text) => lines.push(text), classic);
    expect(lines.filter((text) => /^(?:Step|Dockerfile line) /.test(text))).toEqual([
      `Dockerfile line 1: FROM ${base}`,
      'Dockerfile line 2: COPY . /app',
      expect.stringContaining('Dockerfile line 3: RUN echo'),
    ]);
    expect(lines.filter((text) => text.includes('Using cache'))).toHaveLength(3);
  },
);

describe('what the classic builder leaves beside its image', () => {
  /** Labels of the images without a name whose steps have a text in them, by id. */
  const left = async (mark: string): Promise<Map<string, Record<string, string>>> => {
    const filters = encodeURIComponent(JSON.stringify({ dangling: ['true'] }));
    const all = (await engineCall('GET', `/images/json?filters=${filters}`)) as {
      Id: string;
      Labels: Record<string, string> | null;
    }[];
    const found = new Map<string, Record<string, string>>();
    for (const { Id, Labels } of all) {
      // Another test may have removed it by now.
      const history = (await engineCall('GET', `/images/${Id}/history`).catch(() => [])) as { CreatedBy: string }[];
      if (history.some(({ CreatedBy }) => CreatedBy.includes(mark))) found.set(Id, Labels ?? {});
    }
    return found;
  };

  /** Has the agent remove all that it would from an almost full disk years later. */
  const collect = async (): Promise<void> => {
    const collector = new ImageCollector({
      runtime: docker.runtime,
      server: docker.server,
      pulled: deps.images.pulled,
      disk: () => Promise.resolve({ freeBytes: 1, totalBytes: 100 }),
      clock: new FakeClock(),
      log: pino({ enabled: false }),
    });
    await collector.collect(() => new Set(), signal());
  };

  const twoStages = (mark: string, text: string): string =>
    [
      `FROM ${base} AS made`,
      `RUN echo ${mark} && echo ${text} > /made`,
      `LABEL set"point".project=another setpoint.tenant=another setpoint.server=another`,
      `RUN echo more of ${mark}`,
      `FROM ${base}`,
      'COPY --from=made /made /made',
      `RUN echo ${mark} ends`,
    ].join('\n');

  test('stages and the steps of a failed build are the agent’s to remove, and go', async () => {
    const mark = randomUUID();
    const wanted = item('');
    const of = async (dockerfile: string): Promise<BuiltImage> => {
      const { fileUrl } = await repository({ Dockerfile: dockerfile });
      return build({ ...item(fileUrl), project_id: wanted.project_id }, undefined, classic);
    };
    await of(twoStages(mark, 'one'));
    await of(twoStages(mark, 'two'));
    await expect(of(`FROM ${base}\nRUN echo ${mark} > /big\nRUN false`)).rejects.toThrow('Build failed');
    const stages = await left(mark);
    expect(stages.size).toBe(3);
    const own = { [labels.server]: docker.server, [labels.tenant]: 'default', [labels.project]: wanted.project_id };
    for (const given of stages.values()) expect(given).toMatchObject({ ...own, [labels.type]: 'stage' });
    await collect();
    expect([...(await left(mark)).keys()]).toEqual([]);
  });

  test('is the cache of a later build, so that it is there only once', { tags: [longTag] }, async () => {
    const mark = randomUUID();
    const { fileUrl } = await repository({ Dockerfile: twoStages(mark, 'one') });
    const wanted = item(fileUrl);
    await build(wanted, undefined, classic);
    const before = [...(await left(mark)).keys()];
    const lines: string[] = [];
    await build({ ...item(fileUrl), project_id: wanted.project_id }, (text) => lines.push(text), classic);
    expect(lines.filter((text) => text.startsWith('Dockerfile line ')).length).toBe(7);
    expect(lines.filter((text) => text.includes('Using cache')).length).toBe(8);
    expect([...(await left(mark)).keys()]).toEqual(before);
  });

  test('BuildKit leaves nothing', { tags: [longTag] }, async () => {
    const mark = randomUUID();
    const { fileUrl } = await repository({ Dockerfile: twoStages(mark, 'one') });
    const wanted = item(fileUrl);
    const { image } = await build(wanted);
    expect(await outputOf(image, ['/bin/cat', '/made'])).toBe('one\n');
    expect((await left(mark)).size).toBe(0);
  });

  test('is also labelled where a stage begins with another one or with nothing', { tags: [longTag] }, async () => {
    const mark = randomUUID();
    const { fileUrl } = await repository({
      Dockerfile: [
        '# escape=`',
        `FROM ${base} AS first`,
        `RUN echo ${mark} > /made`,
        'FROM first AS second',
        `RUN echo ${mark} \``,
        '  second',
        'FROM scratch AS files',
        `COPY --from=second /made /${mark}`,
        `FROM ${base}`,
        `COPY --from=files /${mark} /made`,
      ].join('\n'),
    });
    const built = await build(item(fileUrl), undefined, classic);
    expect(await outputOf(built.image, ['/bin/cat', '/made'])).toBe(`${mark}\n`);
    const stages = await left(mark);
    expect(stages.size).toBe(2);
    for (const given of stages.values()) expect(given).toMatchObject({ [labels.type]: 'stage' });
  });
});

test('a build of another project takes nothing from the cache', { tags: [longTag] }, async () => {
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN echo ${randomUUID()}` });
  for (const by of [deps]) {
    await build(item(fileUrl), undefined, by);
    const lines: string[] = [];
    await build(item(fileUrl), (text) => lines.push(text), by);
    expect(cachedSteps(lines)).toEqual([]);
    expect(lines.filter((text) => text.includes('Using cache'))).toEqual([]);
  }
});

test('a Dockerfile whose last instruction is open gets its labels after it', async () => {
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nCMD echo said \\\n# the end\n` });
  const wanted = item(fileUrl);
  const built = await build(wanted);
  const image = (await engineCall('GET', `/images/${built.image}/json`)) as {
    Config: { Labels: object; Cmd: string[] };
  };
  expect(image.Config.Labels).toMatchObject({ [labels.assignment]: wanted.id });
  expect(image.Config.Cmd.at(-1)).toMatch(/^echo said/);
  expect(image.Config.Cmd.at(-1)).not.toContain('LABEL');
});

test('a Dockerfile may lie beside its context, or be named by its path in it', { tags: [longTag] }, async () => {
  const made = await repository({
    'docker/web.Dockerfile': `FROM ${base}\nCOPY name /name\nCMD ["/bin/cat", "/name"]`,
    'app/Dockerfile': `FROM ${base}\nCMD ["/bin/echo", "inner"]`,
    'app/name': 'outer',
  });
  const beside = await build(item(made.fileUrl, { dockerfile_path: 'docker/web.Dockerfile', build_context: 'app' }));
  expect(await outputOf(beside.image, ['/bin/cat', '/name'])).toBe('outer');
  const within = await build(item(made.fileUrl, { dockerfile_path: './Dockerfile', build_context: './app/' }));
  expect(await outputOf(within.image, ['/bin/echo', 'inner'])).toBe('inner\n');
});

test('a build that fails reports its last lines', async () => {
  const wrong = await failure({ Dockerfile: `FROM ${base}\nRUN echo the reason && false` });
  expect(wrong).toMatchObject({ code: 'build_failed', retryable: false });
  expect((wrong as Error).message).toBe(
    'Build failed: Dockerfile line 2: RUN echo the reason && false: exit code: 1\nthe reason',
  );
});

test('the reason of a build that fails has neither colours nor the notes of the engine', async () => {
  const wrong = await failure({ Dockerfile: `FROM ${base}\nRUN printf '\\033[91mthe reason\\033[0m\\n' && false` });
  expect((wrong as Error).message).toMatch(/\nthe reason$/);
  expect((wrong as Error).message).not.toMatch(/\p{Cc}\[|--->|Removing intermediate/u);
});

/** Command lines of the processes of this machine that have a text in them. */
async function processes(mark: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line.includes(mark));
}

/** A build that writes `waits` and then waits for ten minutes. */
async function waiting(mark: string, by: BuildDeps): Promise<{ building: Promise<BuiltImage>; stop: AbortController }> {
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN echo waits && sleep 600 && echo ${mark}` });
  const [started, stop] = [Promise.withResolvers<void>(), new AbortController()];
  const line = (text: string): void => void (/^(#\d+ [\d.]+ )?waits$/.test(text) && started.resolve());
  const building = runBuild(item(fileUrl), by, { line, checkedOut, at }, stop.signal);
  await Promise.race([started.promise, building]);
  return { building, stop };
}

test.each([
  ['BuildKit', () => deps],
  ['the classic builder', () => classic],
])('a build by %s that is given up leaves no process, and another one goes on', async (_builder, by) => {
  const marks = [randomUUID(), randomUUID()] as const;
  const [first, second] = [await waiting(marks[0], by()), await waiting(marks[1], by())];
  expect(await processes(marks[0])).not.toEqual([]);
  first.stop.abort(new Error('Enough'));
  await expect(first.building).rejects.toThrow('Enough');
  await expect.poll(() => processes(marks[0]), { timeout: 20_000 }).toEqual([]);
  expect(await processes(marks[1])).not.toEqual([]);
  second.stop.abort(new Error('Enough'));
  await expect(second.building).rejects.toThrow('Enough');
  await expect.poll(() => processes(marks[1]), { timeout: 20_000 }).toEqual([]);
});

describe('SEC-15 a repository that leads out of itself', () => {
  const from = 'FROM scratch';

  test.each<[string, GitFiles, Partial<TaskSpec<'build'>>]>([
    ['by the path of the Dockerfile', { Dockerfile: from }, { dockerfile_path: '../Dockerfile' }],
    ['by an absolute path', { Dockerfile: from }, { dockerfile_path: '/etc/passwd' }],
    ['by the path of the context', { Dockerfile: from }, { build_context: '../..' }],
    ['by a Dockerfile that is a link', { Dockerfile: { link: '/etc/passwd' } }, {}],
    ['by a folder that is a link', { out: { link: '/etc' }, Dockerfile: from }, { dockerfile_path: 'out/passwd' }],
    ['by a context that is a link', { out: { link: '..' }, Dockerfile: from }, { build_context: 'out' }],
    ['and comes back', { out: { link: '..' }, Dockerfile: from }, { dockerfile_path: 'out/tree/Dockerfile' }],
    ['by a list of what to ignore', { Dockerfile: from, '.dockerignore': { link: '/etc/passwd' } }, {}],
  ])('%s fails', async (_how, files, spec) => {
    expect(await failure(files, spec)).toMatchObject({ code: 'path_outside_repository', retryable: false });
  });
});

describe('a build that cannot begin', () => {
  test.each<[string, GitFiles, Partial<TaskSpec<'build'>>, string]>([
    ['has no Dockerfile', { hello: '' }, {}, 'dockerfile_not_found'],
    [
      'has a Dockerfile in other letters',
      { 'app/dockerfile': '' },
      { dockerfile_path: 'app/Dockerfile' },
      'dockerfile_not_found',
    ],
    ['has a folder for a Dockerfile', { 'Dockerfile/x': '' }, {}, 'dockerfile_not_found'],
    ['has no context', { Dockerfile: '' }, { build_context: 'absent' }, 'invalid_source'],
    ['has a file for a context', { Dockerfile: '' }, { build_context: 'Dockerfile' }, 'invalid_source'],
    ['has an argument without a name', { Dockerfile: '' }, { build_args: { 'a b': 'c' } }, 'invalid_source'],
    [
      'has arguments that no request to the engine has room for',
      { Dockerfile: '' },
      { build_args: { KEYS: '\n'.repeat(300 * 1024) } },
      'invalid_source',
    ],
    ['has no such branch', { Dockerfile: '' }, { branch: 'absent' }, 'branch_not_found'],
  ])('as it %s says so', async (_why, files, spec, code) => {
    expect(await failure(files, spec)).toMatchObject({ code, retryable: false });
  });
});

test('nothing of a build is left behind by an agent that was killed', async () => {
  const path = join(repositories.folder, 'swept');
  await mkdir(join(path, 'task-x', 'tree'), { recursive: true });
  await writeFile(join(path, 'task-x', 'tree', 'file'), 'left');
  await openWorkFolder(path);
  expect(await readdir(path)).toEqual([]);
});

test('the engine never sees what the repository does not hold', async () => {
  const seen: Buffer[] = [];
  const runtime: ContainerRuntime = {
    ...docker.runtime,
    async build({ context }) {
      for await (const chunk of context) seen.push(Buffer.from(chunk));
      return { id: 'sha256:x', digest: 'sha256:x' };
    },
    async buildByKit({ context }) {
      for (const entry of context) {
        seen.push(Buffer.from(`${entry.path}\n`));
        if (entry.type === 'file') for await (const chunk of entry.read()) seen.push(Buffer.from(chunk));
      }
      return { id: 'sha256:x', digest: 'sha256:x' };
    },
  };
  const { fileUrl } = await repository({ Dockerfile: 'FROM scratch', '.gitmodules': '', hello: 'hi' });
  for (const builder of ['classic', 'buildkit'] as const) {
    seen.length = 0;
    const by = { ...runtime, builder: async () => ({ type: builder, version: 20 }) };
    await runBuild(item(fileUrl), { ...deps, runtime: by }, { line: () => undefined, checkedOut, at }, signal());
    const archive = Buffer.concat(seen).toString('latin1');
    expect(archive).toContain('hello');
    expect(archive).not.toMatch(/\.git\/|HEAD|refs/);
  }
});

describe('SEC-26 the steps of the classic builder', () => {
  const networks = async (): Promise<string[]> => {
    const all = await docker.runtime.networks({ [labels.server]: docker.server }, signal());
    return all.filter((name) => name !== docker.network);
  };

  test('run in a network and a control group of their own, of which the network goes with the build', async () => {
    const { fileUrl } = await repository({
      Dockerfile: `FROM ${base}\nRUN cat /proc/self/cgroup && echo waits && sleep 600`,
    });
    const wanted = item(fileUrl);
    const enough = new AbortController();
    const waits = Promise.withResolvers<void>();
    const lines: string[] = [];
    const building = runBuild(
      wanted,
      classic,
      {
        line(text) {
          lines.push(text);
          if (text === 'waits') waits.resolve();
        },
        checkedOut,
        at,
      },
      enough.signal,
    );
    await Promise.race([waits.promise, building]);
    const name = `sp-b${wanted.id.replaceAll('-', '').slice(0, 11)}`;
    expect(await networks()).toContain(name);
    const [network] = (await engineCall(
      'GET',
      `/networks?filters=${encodeURIComponent(JSON.stringify({ name: [name] }))}`,
    )) as {
      Id: string;
      Options: Record<string, string>;
    }[];
    expect(network!.Options['com.docker.network.bridge.name']).toBe(name);
    const inside = (await engineCall('GET', `/networks/${network!.Id}`)) as { Containers: object };
    expect(Object.keys(inside.Containers)).toHaveLength(1);
    expect(lines.some((text) => /:pids:\/setpoint-test-builds\/|0::\/setpoint-test-builds\//.test(text))).toBe(true);
    enough.abort(new Error('Enough'));
    await expect(building).rejects.toThrow('Enough');
    await expect
      .poll(
        async () => {
          for (const left of await networks()) await docker.runtime.removeNetwork(left, signal());
          return networks();
        },
        { timeout: 20_000 },
      )
      .toEqual([]);
    await build(item((await repository({ Dockerfile: `FROM ${base}\nRUN true` })).fileUrl), undefined, classic);
    expect(await networks()).toEqual([]);
  });
});

/** A container that no agent made, on the engine's own bridge, with a service on port 8080. */
async function foreignContainer(): Promise<string> {
  const { Id } = (await engineCall('POST', '/containers/create', { Image: http })) as { Id: string };
  onTestFinished(async () => void (await engineCall('DELETE', `/containers/${Id}?force=true`)));
  await engineCall('POST', `/containers/${Id}/start`);
  return Id;
}

async function placeOf(id: string): Promise<{ address: string; gateway: string }> {
  const { NetworkSettings: it } = (await engineCall('GET', `/containers/${id}/json`)) as {
    NetworkSettings: { IPAddress: string; Gateway: string };
  };
  return { address: it.IPAddress, gateway: it.Gateway };
}

async function inside(id: string, command: string[]): Promise<string> {
  return (await docker.runtime.run(id, command, { timeoutMs: 20_000 }, signal())).output;
}

describe('SEC-26 the steps of BuildKit', () => {
  const failing = async (step: string): Promise<{ failed: Error; lines: string[] }> => {
    const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN ${step}` });
    const lines: string[] = [];
    const failed = await build(item(fileUrl), (text) => lines.push(text)).then(
      () => Promise.reject(new Error(`The build did not fail: ${lines.join('\n')}`)),
      (error: unknown) => error as Error, // all failures are errors
    );
    return { failed, lines };
  };

  test('may not start more processes than all builds together may have', async () => {
    const bomb = 'i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); done; echo all of them';
    const { failed, lines } = await failing(bomb);
    expect(failed).toMatchObject({ code: 'build_failed' });
    expect(lines.join('\n')).toMatch(/Cannot fork|Resource temporarily unavailable/);
    expect(said(lines)).not.toContain('all of them');
  });

  test('are known by what they wrote to the disk, and to which project they belong', async () => {
    const step = 'dd if=/dev/zero of=/x bs=1048576 count=20 && echo waits && sleep 600';
    const wanted = item((await repository({ Dockerfile: `FROM ${base}\nRUN ${step}` })).fileUrl);
    const [waits, stop] = [Promise.withResolvers<void>(), new AbortController()];
    const line = (text: string): void => {
      if (text.endsWith(' waits')) waits.resolve();
    };
    const building = runBuild(wanted, deps, { line, checkedOut, at }, stop.signal);
    await Promise.race([waits.promise, building]);
    const written = await Promise.all([wanted.project_id, randomUUID()].map((it) => docker.runtime.stepWrites(it)));
    stop.abort(new Error('Enough'));
    await expect(building).rejects.toThrow('Enough');
    expect(written[0]).toBeGreaterThanOrEqual(20 * 1024 ** 2);
    expect(written[1]).toBe(0);
  });

  test('may not use more memory than all builds together may have, and fail with that reason', async () => {
    const { failed } = await failing('sort /dev/zero');
    expect(failed).toMatchObject({ code: 'build_failed', retryable: false });
    expect(failed.message).toMatch(/out of memory/);
  });

  test('reach neither programs of the machine, nor link-local addresses, nor containers of others; these reach all', async () => {
    const service = createServer((socket) => socket.end()).listen(0, '0.0.0.0');
    await once(service, 'listening');
    const { port } = service.address() as AddressInfo;
    const foreign = await foreignContainer();
    const { gateway, address } = await placeOf(foreign);
    // Answers with what became of a connection.
    const code = (to: string, at: number): string =>
      `const s = require("net").connect(${at}, "${to}"); const say = (x) => { console.log("${to}", x); process.exit() }; s.on("error", (e) => say(e.code)); s.on("connect", () => say("reached")); s.setTimeout(5000, () => say("silence"))`;
    const asked = [code(gateway, port), code('169.254.169.254', 80), code(address, 8080)];
    const steps = [...asked.map((it) => `/bin/node -e '${it}'`), 'echo waits', 'sleep 600'];
    try {
      const { fileUrl } = await repository({ Dockerfile: `FROM ${http}\nUSER 0:0\nRUN ${steps.join(' && ')}` });
      const [waits, stop] = [Promise.withResolvers<void>(), new AbortController()];
      const lines: string[] = [];
      const line = (text: string): void => {
        lines.push(text);
        if (text.endsWith(' waits')) waits.resolve();
      };
      const building = runBuild(item(fileUrl), deps, { line, checkedOut, at }, stop.signal);
      await Promise.race([waits.promise, building]);
      expect(said(lines)).toEqual([
        `${gateway} ECONNREFUSED`,
        '169.254.169.254 ECONNREFUSED',
        `${address} ECONNREFUSED`,
        'waits',
      ]);
      const late = await foreignContainer();
      const reaches = async (container: string, to: string, at: number) =>
        (await inside(container, ['/bin/node', '-e', code(to, at)])) === `${to} reached\n`;
      expect(await reaches(foreign, gateway, port)).toBe(true);
      // The rules learn of a container from the engine, which tells of it after its start.
      await until('the late one reaches all', () => reaches(late, gateway, port));
      expect(await reaches(late, address, 8080)).toBe(true);
      stop.abort(new Error('Enough'));
      await expect(building).rejects.toThrow('Enough');
      const { steps: chain, stepsHost } = chainsOf(docker.server);
      const rules = (await exec('iptables-save')).stdout;
      expect(rules).not.toContain(chain);
      expect(rules).not.toContain(stepsHost);
    } finally {
      service.close();
    }
  });

  test('leave no rule where their agent was killed, once another one sweeps, and keep it while a build runs', async () => {
    const settings = { runtime: docker.runtime, clock: systemClock, log: pino({ enabled: false }) };
    const { steps: chain, stepsHost } = chainsOf(docker.server);
    const rules = async (): Promise<string[]> => {
      const { stdout } = await exec('iptables-save');
      return [chain, stepsHost].filter((name) => stdout.includes(name));
    };
    /** As of an agent that was killed, nothing follows what the engine has from then on. */
    async function* sharedBridge(over: AbortSignal) {
      for await (const bridge of docker.runtime.sharedBridge(over)) return void (yield bridge);
    }
    const leave = async (): Promise<void> => {
      const runtime = { ...docker.runtime, sharedBridge };
      await new BridgeGuard(docker.server, { ...settings, runtime }).hold(signal());
      expect(await rules()).toEqual([chain, stepsHost]);
    };
    await leave();
    const next = new BridgeGuard(docker.server, settings);
    const holding = await next.hold(signal());
    await next.sweep(signal());
    expect(await rules()).toEqual([chain, stepsHost]);
    await holding[Symbol.asyncDispose]();
    await leave();
    await next.sweep(signal());
    expect(await rules()).toEqual([]);
  });

  test.each([
    ['--network=host', 'networks'],
    ['--security=insecure', 'rights'],
    ['--mount=type=ssh', 'SSH'],
  ])('are refused with %s', async (flag, why) => {
    const { failed } = await failing(`${flag} true`);
    expect(failed).toMatchObject({ code: 'invalid_source', retryable: false });
    expect(failed.message).toContain(`RUN ${flag}`);
    expect(failed.message).toContain(why);
  });
});

describe('a mount of a step', () => {
  const canary = `SECRET-${randomUUID()}`;

  test('gives it a secret, of which neither log, error, image nor cache has a trace', async () => {
    const dockerfile = [
      `FROM ${base}`,
      'RUN --mount=type=secret,id=npm.token,target=/token echo "it is $(cat /token)"; wc=$(ls /run/secrets 2>/dev/null); echo "beside: $wc"',
      'RUN ls /token && cat /token || echo none is left',
    ];
    const wanted = item((await repository({ Dockerfile: dockerfile.join('\n') })).fileUrl, {
      build_secrets: { 'npm.token': canary },
    });
    const lines: string[] = [];
    const { image } = await build(wanted, (text) => lines.push(text));
    const expected = ['it is ********', 'beside: ', expect.stringMatching(/No such file/), 'none is left'];
    // The engine reads the two outputs of a program one beside the other.
    expect(said(lines)).toEqual(expect.arrayContaining(expected));
    const kept = await Promise.all([
      engineCall('GET', `/images/${image}/json`),
      engineCall('GET', `/images/${image}/history`),
      engineCall('GET', '/system/df'),
    ]);
    expect(JSON.stringify([kept, lines])).not.toContain(canary);
    const failing = dockerfile
      .slice(0, 1)
      .concat('RUN --mount=type=secret,id=npm.token cat /run/secrets/npm.token && false');
    const failed = await failure({ Dockerfile: failing.join('\n') }, { build_secrets: { 'npm.token': canary } });
    expect((failed as Error).message).toMatch(/exit code: 1\n\*{8}$/);
  });

  test('of a secret that the application has not fails with a word on it, unless the step can do without', async () => {
    const step = (more: string): string =>
      `FROM ${base}\nRUN --mount=type=secret,id=absent${more} ls /run/secrets/absent || echo does without`;
    expect(await failure({ Dockerfile: step('') })).toMatchObject({
      code: 'build_failed',
      message: expect.stringMatching(/the application has no build secret absent/),
    });
    const lines: string[] = [];
    await build(item((await repository({ Dockerfile: step(',required=false') })).fileUrl), (text) => lines.push(text));
    expect(said(lines)).toContain('does without');
  });

  test('keeps a cache for the project, and for no other one', { tags: [longTag] }, async () => {
    const project = randomUUID();
    const of = async (project_id: string): Promise<string[]> => {
      const step = `echo "was: $(cat /cache/id 2>/dev/null)"; echo ${project} > /cache/id; echo ${randomUUID()}`;
      const { fileUrl } = await repository({
        Dockerfile: `FROM ${base}\nRUN --mount=type=cache,id=shared,target=/cache ${step}`,
      });
      const lines: string[] = [];
      await build({ ...item(fileUrl), project_id }, (text) => lines.push(text));
      return said(lines).slice(0, 1);
    };
    expect(await of(project)).toEqual(['was: ']);
    expect(await of(project)).toEqual([`was: ${project}`]);
    expect(await of(randomUUID())).toEqual(['was: ']);
  });

  test('does not give it the image of another project', async () => {
    const victim = item((await repository({ Dockerfile: `FROM ${base}\nRUN echo ${canary} > /source` })).fileUrl);
    await build(victim);
    const spy = `FROM ${base}\nRUN --mount=type=bind,from=${victim.spec.image},target=/x cat /x/source`;
    expect(await failure({ Dockerfile: spy })).toMatchObject({ code: 'image_not_allowed', retryable: false });
    // The same words and the same files, but for the project: what a secret gave to a step is not given to another.
    const lines: string[] = [];
    const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN echo ${canary} > /source && echo ran` });
    await build(item(fileUrl));
    await build(item(fileUrl), (text) => lines.push(text));
    expect(said(lines)).toEqual(['ran']);
  });
});

describe('an image that was built for a project', () => {
  const canary = 'PROPRIETARY-SOURCE-CANARY-4711';
  let victim: BuiltImage;
  let tag: string;

  beforeAll(async () => {
    const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nCOPY source /source`, source: canary });
    const wanted = item(fileUrl);
    tag = wanted.spec.image;
    victim = await build(wanted);
  });

  /** What another project's Dockerfile comes to, with all that its build said. */
  async function spied(dockerfile: string): Promise<{ failed: unknown; said: string }> {
    const { fileUrl } = await repository({ Dockerfile: dockerfile });
    const lines: string[] = [];
    const failed = await build(item(fileUrl), (text) => lines.push(text)).then(
      () => undefined,
      (error: unknown) => error,
    );
    return { failed, said: lines.join('\n') };
  }

  test.each<[string, (at: { tag: string; id: string }) => string, string]>([
    ['to build upon', (at) => `FROM ${at.tag}\nRUN cat /source`, 'image_not_allowed'],
    [
      'as a stage',
      (at) => `FROM ${at.tag} AS v\nFROM ${base}\nCOPY --from=v /source /s\nRUN cat /s`,
      'image_not_allowed',
    ],
    ['to copy from', (at) => `FROM ${base}\nCOPY --from=${at.tag} /source /s\nRUN cat /s`, 'image_not_allowed'],
    ['by its id', (at) => `FROM ${at.id}\nRUN cat /source`, 'image_not_allowed'],
    [
      'to copy from by its id',
      (at) => `FROM ${base}\nCOPY --from=${at.id} /source /s\nRUN cat /s`,
      'image_not_allowed',
    ],
    ['by an argument', (at) => `ARG I=${at.tag}\nFROM $I\nRUN cat /source`, 'image_not_allowed'],
    ['by a later instruction', (at) => `FROM ${base}\nONBUILD COPY --from=${at.tag} /source /s`, 'invalid_source'],
    ['by the beginning of its id', (at) => `FROM ${at.id.slice(7, 30)}\nRUN cat /source`, 'image_not_allowed'],
  ])('is not given to another one %s', async (_how, dockerfile, code) => {
    const { failed, said } = await spied(dockerfile({ tag, id: victim.image }));
    expect(failed).toMatchObject({ code, retryable: false });
    expect(said).not.toContain(canary);
  });
});

test(
  'the log of a step has what it prints, and says where the engine left out what came too fast',
  { tags: [longTag] },
  async () => {
    const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN seq 100000 199999\n` });
    const linesOf = async (by: BuildDeps): Promise<string[]> => {
      const lines: string[] = [];
      await build(item(fileUrl), (text) => void lines.push(text), by);
      return lines;
    };
    const [kit, whole] = [await linesOf(deps), await linesOf(classic)];
    expect(whole.filter((text) => /^1\d{5}$/.test(text))).toHaveLength(100_000);
    expect(said(kit).filter((text) => /^1\d{5}$/.test(text)).length).toBeLessThan(100_000);
    expect(kit).toContainEqual(expect.stringMatching(/^#2 The engine left out lines here: /));
  },
);
