/**
 * Runs the checks and the layers of the suite. Names again what failed, and ends with the line `N passed, N failed`.
 * A check counts as one test. What did not run counts as failed: a skipped test, a file that did not load, a layer that
 * crashed or has no tests. So does what is left behind: a process or a container.
 * Usage: node test/run.ts [--only check,unit,…] [--minutes 45]
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp, open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { labels } from '../agent/runtime/runtime.ts';
import { containersWithLabel, processesOf } from './leftovers.ts';
import type { Process } from './leftovers.ts';

const root = new URL('..', import.meta.url).pathname;
const vitest = 'vitest run --config test/vitest.config.ts --reporter default --reporter json'.split(' ');
const checks = {
  format: ['oxfmt', '--check', '.'],
  lint: ['oxlint', '--type-aware', '--deny-warnings', '--report-unused-disable-directives'],
  types: ['tsc', '--noEmit'],
  'the page of the kinds': ['node', 'test/kinds-page.ts'],
  'the API in the console': ['node', 'test/clients/console-types.ts'],
  'types of the console': ['tsc', '--noEmit', '--project', 'web'],
};
/**
 * Stages run one after the other, the lanes of a stage side by side: what computes beside what waits for an engine or a
 * program. The lanes of a stage take about as long as each other. What looks at an installation as its users do has the machine for itself.
 */
const stages: readonly (readonly (readonly string[])[])[] = [
  [
    ['unit', 'api', 'sim', 'api-etcd'],
    ['check', 'programs', 'contract'],
  ],
  [['e2e', 'browser', 'long', 'fresh']],
];
const parts = stages.flat(2);
/** Those that make containers. */
const onEngine = ['programs', 'contract', 'e2e', 'browser', 'long', 'fresh'];
const byDefault = ['check', 'unit', 'programs', 'contract', 'api', 'api-etcd', 'sim', 'e2e', 'browser'];

/** When the output of a program is shown. */
type Output = 'at once' | 'at its end';

interface Tally {
  passed: number;
  failed: number;
  /** What did not pass, in words. */
  names?: readonly string[];
}

/** The part of vitest's JSON report that counts. */
const Report = z.object({
  numPassedTests: z.int(),
  numFailedTests: z.int(),
  numPendingTests: z.int(),
  numTodoTests: z.int(),
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      assertionResults: z.array(
        z.object({ status: z.string(), fullName: z.string(), failureMessages: z.array(z.string()).nullish() }),
      ),
    }),
  ),
});

type Report = z.infer<typeof Report>;

const { values } = parseArgs({ options: { only: { type: 'string' }, minutes: { type: 'string', default: '45' } } });
const wanted = values.only?.split(',') ?? byDefault;
const unknown = wanted.filter((name) => !parts.includes(name));
if (unknown.length > 0) throw new Error(`Unknown layer: ${unknown.join(', ')}; there are: ${parts.join(', ')}`);

/** Leaders of the sessions that run now. */
const running = new Set<number>();
const deadline = AbortSignal.timeout(Number(values.minutes) * 60_000);
deadline.addEventListener('abort', endRunning);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    endRunning();
    process.exit(1);
  });
}

const verdicts: string[] = [];
const failures: string[] = [];
const total = { passed: 0, failed: 0 };
const scratch = await mkdtemp(join(tmpdir(), 'setpoint-test-'));
process.once('exit', () => rmSync(scratch, { recursive: true }));
try {
  const before = await containers();
  for (const stage of stages) await runStage(stage.map((lane) => lane.filter((part) => wanted.includes(part))));
  const left = wanted.some((layer) => onEngine.includes(layer)) ? await newContainers(before) : [];
  if (left.length > 0) note(`Containers left behind, ${left.join(', ')}`, { passed: 0, failed: left.length });
} catch (error) {
  console.error(error);
  note('The run itself', { passed: 0, failed: 1 });
}
if (failures.length > 0) console.log(`\nWhat did not pass:\n${failures.join('\n')}`);
console.log(`\n${verdicts.join('\n')}\n${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);

/** Where several lanes run, the output of each program is shown as a whole when it ends. */
async function runStage(lanes: readonly (readonly string[])[]): Promise<void> {
  const output = lanes.filter((lane) => lane.length > 0).length > 1 ? 'at its end' : 'at once';
  await Promise.all(
    lanes.map(async (lane) => {
      for (const part of lane) await (part === 'check' ? runChecks(output) : runLayer(part, output));
    }),
  );
}

async function runChecks(output: Output): Promise<void> {
  for (const [name, argv] of Object.entries(checks)) await runCheck(name, argv, output);
}

async function runCheck(name: string, argv: readonly string[], output: Output): Promise<void> {
  const succeeded = await run(argv.join(' '), argv, output);
  note(name, succeeded ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 });
}

async function runLayer(layer: string, output: Output): Promise<void> {
  const file = join(scratch, `${layer}.json`);
  const succeeded = await run(layer, [...vitest, '--project', layer, `--outputFile.json=${file}`], output);
  const { passed, failed, names = [] } = await read(file);
  const ran = succeeded && passed > 0;
  note(layer, { passed, failed: ran ? failed : Math.max(failed, 1), names });
}

/** What vitest tells of a layer; nothing where it crashed before it told. */
async function read(file: string): Promise<Tally> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return { passed: 0, failed: 0 };
  const report = Report.parse(JSON.parse(text));
  const notLoaded = report.testResults.filter((it) => it.status === 'failed' && it.assertionResults.length === 0);
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + report.numPendingTests + report.numTodoTests + notLoaded.length,
    names: report.testResults.flatMap(namesOf),
  };
}

/** The tests of a file that did not pass, each with the first line of its reason. */
function namesOf({ name, status, assertionResults }: Report['testResults'][number]): string[] {
  const path = relative(root, name);
  if (status === 'failed' && assertionResults.length === 0) return [`${path} did not load`];
  return assertionResults
    .filter((it) => it.status !== 'passed')
    .map((it) => {
      const [reason = it.status] = (it.failureMessages?.[0] ?? it.status).split('\n');
      return `${path} > ${it.fullName}: ${reason.slice(0, 300)}`;
    });
}

function note(name: string, { passed, failed, names = [] }: Tally): void {
  failures.push(...names.map((it) => `  ${name}: ${it}`));
  verdicts.push(`${name}: ${passed} passed, ${failed} failed`);
  total.passed += passed;
  total.failed += failed;
}

/**
 * Runs a program of the project's own as the leader of a session, so that what it leaves behind is found, ended and
 * counted as a failure. Resolves with whether the program succeeded.
 */
async function run(title: string, argv: readonly string[], output: Output): Promise<boolean> {
  if (deadline.aborted) {
    console.error(`Not run, as ${values.minutes} minutes are over`);
    return false;
  }
  const [program = '', ...rest] = argv;
  const path = [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter);
  console.log(`\n== ${title}${output === 'at once' ? '' : ' begins'}`);
  const file = join(scratch, randomUUID());
  const log = output === 'at once' ? undefined : await open(file, 'w');
  const child = spawn(program, rest, {
    cwd: root,
    stdio: log === undefined ? 'inherit' : ['ignore', log.fd, log.fd],
    detached: true,
    env: { ...process.env, PATH: path },
  });
  if (child.pid !== undefined) running.add(child.pid);
  const code = await new Promise<number | null>((resolve) => {
    child.once('exit', resolve).once('error', (error) => {
      console.error(error);
      resolve(null);
    });
  });
  if (child.pid !== undefined) running.delete(child.pid);
  if (log !== undefined) {
    await log.close();
    process.stdout.write(`\n== ${title}\n${await readFile(file, 'utf8')}`);
  }
  const left = child.pid === undefined ? [] : await leftBehind(child.pid);
  for (const it of left) process.kill(it.pid, 'SIGKILL');
  if (left.length > 0) {
    const names = left.map((it) => `${it.name} ${it.pid}`).join(', ');
    note(`Processes left behind, ${names}`, { passed: 0, failed: left.length });
  }
  return code === 0;
}

function endRunning(): void {
  for (const leader of running) process.kill(-leader, 'SIGKILL');
}

/** What of a session still lives two seconds after its leader's end. */
async function leftBehind(session: number): Promise<Process[]> {
  let left = await processesOf(session);
  for (let attempt = 0; left.length > 0 && attempt < 20; attempt += 1) {
    await wait(100);
    left = await processesOf(session);
  }
  return left;
}

/** The containers that an agent made on this machine since `before`, and that are still there after ten seconds. */
async function newContainers(before: readonly string[]): Promise<string[]> {
  let left = await containers();
  for (let attempt = 0; left.some((name) => !before.includes(name)) && attempt < 20; attempt += 1) {
    await wait(500);
    left = await containers();
  }
  return left.filter((name) => !before.includes(name));
}

/** Names of the containers that agents made on this machine; none where no engine answers. */
async function containers(): Promise<string[]> {
  return containersWithLabel(labels.server).catch(() => []);
}
