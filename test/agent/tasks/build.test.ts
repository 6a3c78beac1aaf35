import { randomUUID } from 'node:crypto';
import { readdir, writeFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import type { TaskSpec } from '../../../agent-protocol/task-types.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Progress } from '../../../agent-protocol/workload.ts';
import { diskGuard } from '../../../agent/disk/disk-guard.ts';
import { ImageRecord } from '../../../agent/engine/image-record.ts';
import { ImageCollector } from '../../../agent/engine/image-collector.ts';
import { imageStore } from '../../../agent/engine/image-store.ts';
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

let docker: TestDocker;
let base: string;
let repositories: TestRepositories;
let deps: BuildDeps;

const signal = (): AbortSignal => AbortSignal.timeout(60_000);

beforeAll(async () => {
  base = (await ensureTestImages()).shell;
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
      localImages: ['setpoint-test/shell'],
      clock: systemClock,
    }),
    server: docker.server,
  };
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

const build = (wanted: ReturnType<typeof item>, line: (text: string) => void = () => undefined): Promise<BuiltImage> =>
  runBuild(wanted, deps, { line, checkedOut, at }, signal());

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
  const commit = await deps.git.head(made.fileUrl, 'main', signal());
  expect(built).toMatchObject({ commit, commitMessage: 'Say hello', digest: built.image });
  expect(lines.slice(0, 3)).toEqual([
    `Cloning ${made.fileUrl}, branch main`,
    `Checked out ${commit} Say hello`,
    `Looks for image ${base}`,
  ]);
  expect(lines).toContain('building');
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
  expect(lines.filter((text) => /^Step .*LABEL/.test(text))).toHaveLength(2);
});

test('a build reports the commit before anything of it can fail', async () => {
  const { fileUrl } = await repository({ hello: 'no Dockerfile' });
  const sources: unknown[] = [];
  const progress = { at, line: () => undefined, checkedOut: (source: unknown) => void sources.push(source) };
  await expect(runBuild(item(fileUrl), deps, progress, signal())).rejects.toMatchObject({
    code: 'dockerfile_not_found',
  });
  const commit = await deps.git.head(fileUrl, 'main', signal());
  expect(sources).toEqual([{ commit, commitMessage: 'Say hello' }]);
});

test('a build reports what it does: it clones, looks for images, and carries out one step after the other', async () => {
  const { fileUrl } = await repository({
    Dockerfile: `FROM ${base}\nRUN echo "Step 9/9 : RUN pretends"; echo "Step 1/4 : goes back"\nRUN echo ${randomUUID()}`,
  });
  const seen: Progress[] = [];
  const progress = { line: () => undefined, checkedOut, at: (step: Progress) => void seen.push(step) };
  await runBuild(item(fileUrl), deps, progress, signal());
  const steps = { step: 'building', total: 5, unit: 'steps' };
  expect(seen).toEqual([
    { step: 'cloning' },
    { step: 'resolving', done: 0, total: 1, unit: 'images' },
    { step: 'uploading' },
    { ...steps, done: 0 },
    { ...steps, done: 1 },
    { ...steps, done: 2 },
    { ...steps, done: 3 },
    { ...steps, done: 4 },
  ]);
});

test('a build that is repeated takes everything but its labels from the cache', async () => {
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nCOPY . /app\nRUN echo ${randomUUID()}` });
  const wanted = item(fileUrl);
  await build(wanted);
  const lines: string[] = [];
  await build({ ...item(fileUrl), project_id: wanted.project_id }, (text) => lines.push(text));
  expect(lines.filter((text) => text.startsWith('Step '))).toHaveLength(5);
  expect(lines.filter((text) => text.includes('Using cache'))).toHaveLength(3);
});

describe('what a build leaves beside its image', () => {
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
      return build({ ...item(fileUrl), project_id: wanted.project_id });
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

  test('is the cache of a later build, so that it is there only once', async () => {
    const mark = randomUUID();
    const { fileUrl } = await repository({ Dockerfile: twoStages(mark, 'one') });
    const wanted = item(fileUrl);
    await build(wanted);
    const before = [...(await left(mark)).keys()];
    const lines: string[] = [];
    await build({ ...item(fileUrl), project_id: wanted.project_id }, (text) => lines.push(text));
    expect(lines.filter((text) => text.startsWith('Step ')).length).toBe(11);
    expect(lines.filter((text) => text.includes('Using cache')).length).toBe(8);
    expect([...(await left(mark)).keys()]).toEqual(before);
  });

  test('is also labelled where a stage begins with another one or with nothing', async () => {
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
    const built = await build(item(fileUrl));
    expect(await outputOf(built.image, ['/bin/cat', '/made'])).toBe(`${mark}\n`);
    const stages = await left(mark);
    expect(stages.size).toBe(2);
    for (const given of stages.values()) expect(given).toMatchObject({ [labels.type]: 'stage' });
  });
});

test('a build of another project takes nothing from the cache', async () => {
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN echo ${randomUUID()}` });
  await build(item(fileUrl));
  const lines: string[] = [];
  await build(item(fileUrl), (text) => lines.push(text));
  expect(lines.filter((text) => text.includes('Using cache'))).toEqual([]);
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

test('a Dockerfile may lie beside its context, or be named by its path in it', async () => {
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
  expect((wrong as Error).message).toMatch(/^Build failed: .*non-zero code: 1\n[^]*the reason/);
});

test('the reason of a build that fails has neither colours nor the notes of the engine', async () => {
  const wrong = await failure({ Dockerfile: `FROM ${base}\nRUN printf '\\033[91mthe reason\\033[0m\\n' && false` });
  expect((wrong as Error).message).toMatch(/\nthe reason$/);
  expect((wrong as Error).message).not.toMatch(/\p{Cc}\[|--->|Removing intermediate/u);
});

test('a build that is given up leaves no container', async () => {
  const mark = randomUUID();
  const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN echo started ${mark} && sleep 600` });
  const containers = async (): Promise<unknown[]> => {
    const all = (await engineCall('GET', '/containers/json?all=true')) as { Command: string }[];
    return all.filter(({ Command }) => Command.includes(mark));
  };
  const started = Promise.withResolvers<void>();
  const enough = new AbortController();
  const line = (text: string): void => {
    if (text === `started ${mark}`) started.resolve();
  };
  const building = runBuild(item(fileUrl), deps, { line, checkedOut, at }, enough.signal);
  await started.promise;
  expect(await containers()).toHaveLength(1);
  enough.abort(new Error('Enough'));
  await expect(building).rejects.toThrow('Enough');
  await expect.poll(containers, { timeout: 20_000 }).toEqual([]);
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
    ['by an absolute link in the context', { Dockerfile: from, passwd: { link: '/etc/passwd' } }, {}],
    ['by a relative link in the context', { Dockerfile: from, 'a/b': { link: '../../../x' } }, {}],
    [
      'by a link out of the context',
      { Dockerfile: from, 'app/up': { link: '../Dockerfile' } },
      { build_context: 'app' },
    ],
    ['by a list of what to ignore', { Dockerfile: from, '.dockerignore': { link: '/etc/passwd' } }, {}],
  ])('%s fails', async (_how, files, spec) => {
    expect(await failure(files, spec)).toMatchObject({ code: 'path_outside_repository', retryable: false });
  });
});

describe('a build that cannot begin', () => {
  test.each<[string, GitFiles, Partial<TaskSpec<'build'>>, string]>([
    ['has no Dockerfile', { hello: '' }, {}, 'dockerfile_not_found'],
    ['has a folder for a Dockerfile', { 'Dockerfile/x': '' }, {}, 'dockerfile_not_found'],
    ['has no context', { Dockerfile: '' }, { build_context: 'absent' }, 'invalid_source'],
    ['has a file for a context', { Dockerfile: '' }, { build_context: 'Dockerfile' }, 'invalid_source'],
    ['has an argument without a name', { Dockerfile: '' }, { build_args: { 'a b': 'c' } }, 'invalid_source'],
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
  };
  const { fileUrl } = await repository({ Dockerfile: 'FROM scratch', '.gitmodules': '', hello: 'hi' });
  await runBuild(item(fileUrl), { ...deps, runtime }, { line: () => undefined, checkedOut, at }, signal());
  const archive = Buffer.concat(seen).toString('latin1');
  expect(archive).toContain('hello');
  expect(archive).not.toMatch(/\.git\/|HEAD|refs/);
});

describe('SEC-26 the steps of a build', () => {
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
      deps,
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
    await build(item((await repository({ Dockerfile: `FROM ${base}\nRUN true` })).fileUrl));
    expect(await networks()).toEqual([]);
  });

  test('may not start more processes than all builds together may have', async () => {
    const bomb = 'i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); done; echo all of them';
    const { fileUrl } = await repository({ Dockerfile: `FROM ${base}\nRUN ${bomb}` });
    const lines: string[] = [];
    await expect(build(item(fileUrl), (text) => lines.push(text))).rejects.toMatchObject({ code: 'build_failed' });
    expect(lines.join('\n')).toMatch(/Cannot fork|Resource temporarily unavailable/);
    expect(lines).not.toContain('all of them');
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
