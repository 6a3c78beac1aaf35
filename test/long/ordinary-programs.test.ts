import { execFile } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import type { ApiObject } from '../../cli/client.ts';
import { testLabel } from '../leftovers.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { startGitServer } from '../harness/git-server.ts';
import type { GitServer } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureCapableImage, ensureTestImages } from '../harness/test-image.ts';

const patientMs = 170_000;
const once = { min_healthy_seconds: 1, drain_seconds: 0 };

let town: Installation;
let git: GitServer;
let image: string;
let shell: string;
const built: string[] = [];

beforeAll(async () => {
  ({ http: image, shell } = await ensureTestImages());
  git = await startGitServer();
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await git[Symbol.asyncDispose]();
  for (const one of built) await docker('image', 'rm', '--force', one);
});

/** An image of these lines, as somebody's registry could have it. */
async function imageOf(...lines: string[]): Promise<string> {
  const tag = `setpoint-test/ordinary:${built.length}`;
  built.push(tag);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const child = execFile('docker', ['build', '--quiet', '--label', testLabel, '--tag', tag, '-'], (error) =>
    error === null ? resolve() : reject(error),
  );
  child.stdin?.end(lines.join('\n'));
  await promise;
  return tag;
}

/** A program in JavaScript as the command of an application. */
function program(script: string): string {
  return `/bin/node -e '${script.replaceAll("'", `'"'"'`)}'`;
}

async function applicationOf(fields: Record<string, unknown>): Promise<ApiObject> {
  return town.createApplication({ ...once, source_type: 'image', image_url: image, ...fields });
}

async function deployed(fields: Record<string, unknown>): Promise<ApiObject> {
  const app = await applicationOf(fields);
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
  return town.application(app.id);
}

async function failure(fields: Record<string, unknown>): Promise<{ app: ApiObject; message: string }> {
  const app = await applicationOf(fields);
  const { error } = await town.deployment((await town.deploy(app.id)).id, 'failed', patientMs);
  return { app, message: JSON.stringify(error) };
}

const conditionsOf = async (id: string): Promise<string> => JSON.stringify((await town.application(id)).conditions);
const says = (id: string, words: string | RegExp): Promise<boolean> =>
  town.until(
    `it says ${String(words)}`,
    async () => {
      const text = await conditionsOf(id);
      return typeof words === 'string' ? text.includes(words) : words.test(text);
    },
    patientMs,
  );
const inside = async (id: string, ...command: string[]): Promise<string> =>
  docker('exec', (await instancesOf(id))[0] ?? '', ...command);
const eventsOf = async (id: string): Promise<string> =>
  JSON.stringify(await town.client.request('GET', `/api/v1/applications/${id}/events`));

const serving = (body: string): string =>
  program(`require("http").createServer((q,a)=>{${body}}).listen(Number(process.env.PORT),"0.0.0.0")`);

describe('health checks', () => {
  it.concurrent('ask for the host that a program insists on, and take the one status that is meant', async () => {
    const port = await freePort();
    await deployed({
      exposed_port: port,
      start_command: serving('a.writeHead(q.headers.host==="shop.example.test"?204:421);a.end("misdirected")'),
      healthcheck: { type: 'http', path: '/', host: 'shop.example.test', status: 204, interval: 1 },
    });
  });

  it.concurrent('say while a rollout waits what the program answered', async () => {
    const port = await freePort();
    const app = await applicationOf({
      exposed_port: port,
      healthcheck_path: '/',
      start_command: serving('a.writeHead(403);a.end("Invalid HTTP_HOST header")'),
    });
    await town.deploy(app.id);
    await says(app.id, /403.*Invalid HTTP_HOST header/);
    await town.client.request('POST', `/api/v1/applications/${app.id}/stop`, {});
  });

  it.concurrent('of an image decide, and an image may have NONE', async () => {
    const checked = await imageOf(
      `FROM ${image}`,
      'HEALTHCHECK --interval=1s --retries=100 CMD ["/bin/cat", "/tmp/well"]',
      `CMD ["/bin/sh", "-c", "sleep 4; echo well > /tmp/well; exec sleep infinity"]`,
    );
    const began = Date.now();
    await deployed({ image_url: checked });
    expect(Date.now() - began).toBeGreaterThan(4000);
    const none = await imageOf(`FROM ${checked}`, 'HEALTHCHECK NONE', 'CMD ["/bin/sleep", "infinity"]');
    await deployed({ image_url: none });
  });
});

describe('names and values', () => {
  it.concurrent('of variables reach the program as they were set, whatever their characters', async () => {
    const env = {
      'discovery.type': 'single-node',
      'MY-KEY': 'a b',
      'x[0]/ключ': '-----BEGIN KEY-----\nAA==\n-----END KEY-----\n',
    };
    const { id } = await deployed({ env });
    const seen: unknown = JSON.parse(await inside(id, '/bin/node', '-e', 'console.log(JSON.stringify(process.env))'));
    expect(seen).toMatchObject(env);
  });

  it.concurrent('of build arguments may have several lines and any name that a Dockerfile has', async () => {
    const { url } = await git.repository({
      Dockerfile: `FROM ${image}\nARG CERT\nRUN echo "$CERT" > /tmp/cert\n`,
    });
    const { id } = await deployed({
      source_type: 'git',
      image_url: undefined,
      repository_url: url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      build_args: { CERT: 'first\nsecond' },
    });
    expect(await inside(id, '/bin/cat', '/tmp/cert')).toBe('first\nsecond');
  });

  it.concurrent('that are wrong are named so that they can be found', async () => {
    const wrong = applicationOf({ env: { 'spring.datasource.url': 5, 'a"b': 'x\0y' } });
    await expect(wrong).rejects.toThrow('env["spring.datasource.url"]');
  });
});

describe('rights', () => {
  const hasRaw = async (id: string): Promise<boolean> =>
    /^CapEff:.*[2367abef]\w{3}$/m.test(await inside(id, '/bin/sh', '-c', 'cat /proc/self/status'));
  const grant = (id: string, ...capabilities: string[]) =>
    town.client.request('PUT', `/api/v1/applications/${id}/capabilities?wait=120`, { capabilities });

  it.concurrent('that were granted stay through a rollback', async () => {
    const { id } = await deployed({ image_url: await ensureCapableImage() });
    await grant(id, 'NET_RAW');
    await town.deployment((await town.deploy(id)).id, 'succeeded', patientMs);
    const { id: back } = await town.client.object('POST', `/api/v1/applications/${id}/rollback`, {});
    await town.deployment(back, 'succeeded', patientMs);
    await town.until('it has the right', () => hasRaw(id), patientMs);
  });

  it.concurrent('are those of each service of a compose file', async () => {
    const compose_file = `services:\n  web: {image: ${image}}\n  job: {image: ${shell}, command: [sleep, infinity]}\n`;
    const app = await applicationOf({ source_type: 'compose', image_url: undefined, compose_file });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    await grant(app.id, 'NET_RAW');
    const all = async () =>
      (
        await Promise.all(
          (await instancesOf(app.id)).map((one) => docker('inspect', '--format', '{{.HostConfig.CapAdd}}', one)),
        )
      ).every((text) => text.includes('NET_RAW'));
    await town.until('both have the right', all, patientMs);
  });

  it.concurrent('of the closed list alone are granted', async () => {
    const { id } = await applicationOf({});
    await expect(grant(id, 'SYS_ADMIN')).rejects.toThrow(/IPC_LOCK.*NET_RAW.*SYS_NICE/);
  });
});

describe('builds', () => {
  const builtOf = async (files: Parameters<GitServer['repository']>[0]) => ({
    source_type: 'git',
    image_url: undefined,
    repository_url: (await git.repository(files)).url,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });

  it.concurrent('choose a stage by the platform, and leave out what nothing needs', async () => {
    const arch = process.arch === 'arm64' ? 'arm64' : 'amd64';
    const lines = [
      'ARG TARGETARCH',
      `FROM --platform=$BUILDPLATFORM ${image} AS build-${arch}`,
      'RUN echo native > /tmp/made',
      `FROM ${image} AS build-other`,
      'RUN exit 1',
      'FROM build-${TARGETARCH}',
      '',
    ];
    const { id } = await deployed(await builtOf({ Dockerfile: lines.join('\n') }));
    expect(await inside(id, '/bin/cat', '/tmp/made')).toBe('native');
  });

  it.concurrent('that fail show the line and the words of the Dockerfile', async () => {
    const lines = [`FROM ${image}`, 'ENV A=b', '', 'RUN echo missing library && exit 3', ''];
    const { message } = await failure(await builtOf({ Dockerfile: lines.join('\n') }));
    expect(message).toMatch(/line 4|:4/i);
    expect(message).toContain('RUN echo missing library');
    expect(message).not.toContain('LABEL');
  });

  it.concurrent('leave out what the file beside the Dockerfile names', async () => {
    const { id } = await deployed(
      await builtOf({
        Dockerfile: `FROM ${image}\nCOPY . /tmp/context/\n`,
        'Dockerfile.dockerignore': '*.secret\n',
        'a.secret': 'no',
        'b.txt': 'yes',
      }),
    );
    expect(await inside(id, '/bin/ls', '/tmp/context')).not.toContain('a.secret');
    expect(await inside(id, '/bin/cat', '/tmp/context/b.txt')).toBe('yes');
  });
});

describe('data in a folder that an image wants to keep', () => {
  it.concurrent('is told with each folder and the command that keeps it', async () => {
    const { id } = await deployed({ image_url: await imageOf(`FROM ${image}`, 'VOLUME ["/data", "/var/lib/app"]') });
    await says(id, /DataNotKept.*\/data, \/var\/lib\/app.*setpoint bind/);
  });

  it.concurrent('of a service of a compose file is told with what to write there', async () => {
    const kept = await imageOf(`FROM ${image}`, 'VOLUME /cache');
    const compose_file = `services:\n  web: {image: ${kept}}\n`;
    const app = await applicationOf({ source_type: 'compose', image_url: undefined, compose_file });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    await says(app.id, /DataNotKept.*name a volume for \/cache/);
  });

  it.concurrent('is told no more once a volume is bound there', async () => {
    const app = await deployed({ image_url: await imageOf(`FROM ${image}`, 'VOLUME /data') });
    await says(app.id, 'DataNotKept');
    const volume = await town.client.object('POST', '/api/v1/volumes', {
      project_id: town.project.id,
      environment_id: town.environment.id,
      server_id: town.server.id,
      name: `data-${app.id.slice(0, 6)}`,
    });
    await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind`, {
      workload_type: 'application',
      workload_id: app.id,
      mount_path: '/data',
    });
    const isQuiet = async () => !(await conditionsOf(app.id)).includes('DataNotKept');
    await town.until('nothing is lost', isQuiet, patientMs);
  });
});

describe('a slow crash loop', () => {
  it.concurrent.each([
    ['ends by itself after some seconds', 'sleep 4; echo no licence; exit 7', 'code 7'],
    ['ends by a signal', 'sleep 4; kill -SEGV $$', 'code 139'],
    ['ends well although it is to run always', 'sleep 4; exit 0', 'code 0'],
  ])('is told of a program that %s', async (_, script, words) => {
    const { id } = await deployed({ app_type: 'worker', start_command: `/bin/sh -c "${script}"` });
    await says(id, new RegExp(`CrashLoop[^}]*${words}`));
  });
});

describe('an end that is meant', () => {
  it.concurrent('is one after on-failure, too', async () => {
    const { id } = await deployed({
      app_type: 'worker',
      restart_policy: 'on-failure',
      start_command: '/bin/sh -c "sleep 3; exit 0"',
    });
    await says(id, 'Completed');
    expect((await town.application(id)).status).toBe('stopped');
  });

  it.concurrent('with another code is a failure that names it, also after a success of the deployment', async () => {
    const { id } = await deployed({
      app_type: 'worker',
      restart_policy: 'never',
      start_command: '/bin/sh -c "sleep 5; echo queue is gone; exit 3"',
    });
    await says(id, /Exited[^}]*code 3[^}]*queue is gone/);
    expect((await town.application(id)).status).toBe('failed');
  });

  it.concurrent('is run once more by a start', async () => {
    const { id } = await deployed({
      app_type: 'worker',
      restart_policy: 'never',
      start_command: '/bin/sh -c "exit 0"',
    });
    await says(id, 'Completed');
    const [before] = await instancesOf(id);
    await town.client.request('POST', `/api/v1/applications/${id}/start`, {});
    const another = async () => (await instancesOf(id)).some((one) => one !== before);
    await town.until('another one ran', another, patientMs);
  });
});

describe('the time to end', () => {
  const draining = (seconds: number): string =>
    `/bin/sh -c 'trap "sleep ${seconds}; echo drained; exit 0" TERM; while true; do sleep 0.1; done'`;

  it.concurrent.each([
    ['is enough where it is set so', { stop_grace_seconds: 15, start_command: draining(3) }, false],
    ['that is too short is told as a kill', { stop_grace_seconds: 1, start_command: draining(30) }, true],
    [
      'is waited for where the signal is ignored, and the kill is told',
      { stop_grace_seconds: 2, env: { IGNORE_SIGTERM: 'yes', PORT: '8080' } },
      true,
    ],
  ])('%s', async (_, fields, isKilled) => {
    const { id } = await deployed({ app_type: 'worker', ...fields });
    await town.client.request('POST', `/api/v1/applications/${id}/stop`, {});
    await town.until('it is stopped', async () => (await town.application(id)).status === 'stopped', patientMs);
    if (isKilled) await town.until('it is told', async () => (await eventsOf(id)).includes('KilledAtStop'), patientMs);
    else expect(await eventsOf(id)).not.toContain('KilledAtStop');
  });
});

describe('where a program listens', () => {
  const listening = (port: number, where: string) => ({
    exposed_port: port,
    healthcheck: { type: 'tcp', interval: 1 },
    start_command: program(`require("net").createServer().listen(${where})`),
  });

  it.concurrent.each([
    ['for IPv6 alone', '{port:PORT,host:"::",ipv6Only:true}', /IPv6 alone/],
    ['on another loopback address', 'PORT,"127.0.0.2"', /127\.0\.0\.2.*nothing outside of its container reaches/],
    ['on another port', '7777,"0.0.0.0"', /7777.*exposed_port to 7777/],
  ])('%s is told after some seconds, with what to change', async (_, where, words) => {
    const port = await freePort();
    const app = await applicationOf(listening(port, where.replace('PORT', String(port))));
    await town.deploy(app.id);
    await says(app.id, words);
    await town.client.request('POST', `/api/v1/applications/${app.id}/stop`, {});
  });

  it.concurrent('follows PORT, which is the exposed port unless it is set', async () => {
    const port = await freePort();
    const { id } = await deployed({ exposed_port: port, healthcheck_path: '/healthz' });
    expect(await inside(id, '/bin/sh', '-c', 'echo $PORT')).toBe(String(port));
  });
});

describe('sources', () => {
  const from = (url: string, fields: Record<string, unknown> = {}) => ({
    source_type: 'git',
    image_url: undefined,
    repository_url: url,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    ...fields,
  });

  it.concurrent('of a commit are built at that, and of another branch at its head', async () => {
    const repository = await git.repository({ Dockerfile: `FROM ${image}\nENV REVISION=one\n` });
    await repository.commit({ Dockerfile: `FROM ${image}\nENV REVISION=two\n` });
    await repository.commit({ Dockerfile: `FROM ${image}\nENV REVISION=three\n` }, { branch: 'release/1' });
    const [old, other] = await Promise.all([
      deployed(from(repository.url, { branch: repository.head })),
      deployed(from(repository.url, { branch: 'release/1' })),
    ]);
    const revision = (id: string) => inside(id, '/bin/sh', '-c', 'echo $REVISION');
    expect([await revision(old.id), await revision(other.id)]).toEqual(['one', 'three']);
  });

  it.concurrent('with a Dockerfile in other letters, or none, are refused with what is there', async () => {
    const lower = await git.repository({ dockerfile: `FROM ${image}\n`, 'README.md': 'shop' });
    expect((await failure(from(lower.url))).message).toMatch(/dockerfile/);
    const gone = await git.repository({ 'README.md': 'shop' });
    expect((await failure(from(gone.url, { branch: 'develop' }))).message).toContain('develop');
  });

  it.concurrent('with a link to nowhere and names in other letters are built as they are', async () => {
    const repository = await git.repository(
      { Dockerfile: `FROM ${image}\nCOPY . /tmp/all/\n`, 'größe – ü.txt': 'yes' },
      { symlinks: { 'old-link': '/nowhere/at/all' } },
    );
    const { id } = await deployed(from(repository.url));
    expect(await inside(id, '/bin/ls', '/tmp/all')).toContain('größe');
  });
});

describe('programs that cannot be started', () => {
  it.concurrent.each([
    ['is not there', '/bin/absent', /no such file|not found/],
    ['is not in the path', 'absent-program', /executable file not found.*start_command/],
    ['may not be executed', '/service.mjs', /permission denied|not executable/],
  ])('as the program %s fail at once with what to do', async (_, start_command, words) => {
    const { message } = await failure({ start_command });
    expect(message).toMatch(words);
  });
});

describe('an image that was removed from the server while its application was stopped', () => {
  it('is built again at its commit by a start', async () => {
    const port = await freePort();
    const { url } = await git.repository({ Dockerfile: `FROM ${image}\nENV REVISION=one\n` });
    const app = await deployed({
      source_type: 'git',
      image_url: undefined,
      repository_url: url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      exposed_port: port,
      healthcheck_path: '/healthz',
    });
    const path = `/api/v1/applications/${app.id}`;
    await town.client.request('POST', `${path}/stop?wait=60`, {});
    const own = ['--filter', `label=${labels.workload}=${app.id}`, '--format', '{{.ID}}'];
    for (const id of new Set((await docker('image', 'ls', ...own)).split('\n'))) await docker('image', 'rm', '-f', id);
    await town.client.request('POST', `${path}/start`, {});
    const isBack = async () =>
      (await fetch(`http://127.0.0.1:${port}/env/REVISION`).then(
        (it) => it.text(),
        () => '',
      )) === 'one';
    await town.until('it serves again', isBack, patientMs);
    expect(await eventsOf(app.id)).toContain('ImageGone');
  });
});

const Lines = z.object({ lines: z.array(z.object({ message: z.string() })) });

describe('output', () => {
  it.concurrent.each([
    ['of progress is its last state', 'process.stdout.write("1%\\r50%\\r99%\\r");setInterval(()=>{},1e9)', /^99%…$/],
    [
      'without a line feed is shown while its program runs',
      'process.stdout.write("password? ");setInterval(()=>{},1e9)',
      /^password\? …$/,
    ],
    [
      'of two megabytes in one line is cut with marks',
      'console.log("x".repeat(2e6));setInterval(()=>{},1e9)',
      /^…x{16000,}…$/,
    ],
  ])('%s', async (_, script, wanted) => {
    const { id } = await deployed({ app_type: 'worker', start_command: program(script) });
    await town.until(
      'it is shown',
      async () => {
        const answer = await town.client.request('GET', `/api/v1/applications/${id}/runtime-logs`);
        return Lines.parse(answer).lines.some(({ message }) => wanted.test(message));
      },
      patientMs,
    );
  });
});

describe('a child that is killed for memory', () => {
  it('is told while the first process goes on', async () => {
    const eats = 'const a=[];for(;;)a.push(Buffer.alloc(1e7,1))';
    const parent = `require("child_process").spawn(process.execPath,["-e","${eats}"]);setInterval(()=>{},1e9)`;
    const { id } = await deployed({ app_type: 'worker', memory_limit: '128m', start_command: program(parent) });
    await town.until('it is told', async () => (await eventsOf(id)).includes('memory'), patientMs);
    expect((await town.application(id)).status).toBe('running');
  });
});
