import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import type { ApiObject } from '../cli/client.ts';
import { testRepositories } from '../test/harness/git-server.ts';
import type { TestRepository } from '../test/harness/git-server.ts';
import { Installation } from '../test/harness/installation.ts';
import { ensureTestImages } from '../test/harness/test-image.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { percentile } from './measure.ts';
import type { Arrivals, ReadersMethods } from './programs/readers.ts';

const rounds = 5;
const lines = 1_000;
/** Within this time after the step began, a reader is connected. */
const quietMs = 3_000;
const buildMs = 120_000;
const mark = '(at \\d+\\.\\d+|all \\d+)';
const execute = promisify(execFile);

/** Prints a line every 5 ms with the time at which it does, and then how many there were. */
const step = `
  let n = 0;
  const write = (text) => require("fs").writeSync(1, text + "\\n");
  setTimeout(() => {
    const timer = setInterval(() => {
      write("at " + (performance.timeOrigin + performance.now()));
      if (++n < ${lines}) return;
      write("all " + n);
      clearInterval(timer);
    }, 5);
  }, ${quietMs});
`.replaceAll(/\s*\n\s*/g, ' ');

/** The lines of a step of a build, from its process to a reader. */
export const bench: Bench = {
  id: 'P12',
  async run({ compareAll }) {
    const { http: image } = await ensureTestImages();
    const command = await kitCommand();
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const repositories = stack.use(await testRepositories());
    const repository = await repositories.create('lines');
    const town = stack.use(await Installation.start({ store: 'sqlite' }));
    const dockerfile = (): string =>
      `FROM ${image}\nRUN ["/bin/node", "-e", ${JSON.stringify(`${step} // ${Math.random()}`)}]\n`;
    await repository.commit({ Dockerfile: dockerfile() });
    const app = await createApplication(town, repository);

    await compareAll({
      figures: {
        p50: {
          what: 'line of a build step, 200 per s, until it is at a WebSocket, p50; raw: docker build --progress=plain',
          unit: 'ms',
        },
        p99: { what: 'the same, p99', unit: 'ms' },
        lost: { what: 'the same, lines that did not come', unit: 'lines', goal: { atMost: 0, of: 'ours' } },
      },
      rounds,
      raw: async () => {
        await writeFile(join(folder, 'Dockerfile'), dockerfile());
        const { p50, p99 } = figuresOf(await buildByCommand(command, folder));
        return { p50, p99 };
      },
      ours: async () => {
        await repository.commit({ Dockerfile: dockerfile() });
        return figuresOf(await buildByDeployment(town, app));
      },
    });
  },
};

/** The command line of the engine that has BuildKit: a newer one has it only with a plugin. */
async function kitCommand(): Promise<string> {
  for (const command of ['docker', '/usr/bin/docker']) {
    const help = await execute(command, ['build', '--help'], { env: kitEnvironment() }).catch(() => undefined);
    if (help?.stdout.includes('--progress') === true) return command;
  }
  throw new Error('No docker command of this machine builds by BuildKit');
}

function kitEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], HOME: process.env['HOME'], DOCKER_BUILDKIT: '1' };
}

async function buildByCommand(command: string, folder: string): Promise<Arrivals[]> {
  const args = ['build', '--progress=plain', '--network=none', folder];
  const child = spawn(command, args, { env: kitEnvironment(), stdio: ['ignore', 'ignore', 'pipe'], timeout: buildMs });
  const came: Arrivals[] = [];
  const form = new RegExp(mark);
  createInterface(child.stderr).on('line', (line) => {
    const at = performance.timeOrigin + performance.now();
    // the line that names the step has the text of its program
    const found = form.exec(line)?.[1];
    if (found !== undefined) came.push({ mark: found, at: [at] });
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`docker build ended with ${code}`);
  return came;
}

async function createApplication(town: Installation, { fileUrl }: TestRepository): Promise<ApiObject> {
  const how = { min_healthy_seconds: 0, drain_seconds: 0, healthcheck: { type: 'none' } };
  return town.createApplication({
    source_type: 'git',
    repository_url: fileUrl,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
    ...how,
  });
}

async function buildByDeployment(town: Installation, app: ApiObject): Promise<Arrivals[]> {
  const { id } = await town.deploy(app.id);
  const query = new URLSearchParams({ token: town.client.connection.token ?? '' });
  const url = `${town.url().replace('http', 'ws')}/default/ws/deployments/${id}/logs?${query.toString()}`;
  await using reader = await Child.start<ReadersMethods>('readers', { url, count: 1, mark });
  const came: Arrivals[] = [];
  await until(
    'the last line came',
    async () => {
      came.push(...(await reader.call('take')));
      return came.some((it) => it.mark.startsWith('all'));
    },
    { timeoutMs: buildMs, everyMs: 200 },
  );
  await town.deployment(id, 'succeeded', buildMs);
  return came;
}

function figuresOf(came: readonly Arrivals[]): { p50: number; p99: number; lost: number } {
  const times = came.flatMap(({ mark: text, at }) =>
    text.startsWith('at ') ? at.map((one) => one - Number(text.slice(3))) : [],
  );
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), lost: lines - times.length };
}
