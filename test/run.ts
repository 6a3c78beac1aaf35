/**
 * Runs the checks and the layers of the suite. Names again what failed, and ends with the line `N passed, N failed`.
 * A check counts as one test. What did not run counts as failed: a skipped test, a file that did not load, a layer that
 * crashed or has no tests. So does what is left behind: a process or a container. A file that failed runs once more,
 * alone: one that passes then counts as passed and is named under `Unstable:`, as a defect to look at.
 * Usage: node test/run.ts [--only check,unit,…] [--minutes 75]
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp, open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { labels } from '../agent/runtime/runtime.ts';
import { clearGround, inspectGround } from './ground.ts';
import { LayerReport, longTag, reportVariable, tagsVariable } from './layer-report.ts';
import type { FileReport } from './layer-report.ts';
import { claimSession, containersWithLabel, processesOf, releaseSession } from './leftovers.ts';
import type { Process } from './leftovers.ts';

const root = new URL('..', import.meta.url).pathname;
const vitest = ['vitest', 'run', '--config', 'test/vitest.config.ts'];
/** Each further checker of types infers anew what another one has inferred, in the time of a layer that runs beside it. */
const alone = ['--checkers', '1'];
const checks = {
  format: ['oxfmt', '--check', '.'],
  lint: ['oxlint', '--threads', '1', '--type-aware', '--deny-warnings', '--report-unused-disable-directives'],
  types: ['tsc', '--noEmit', ...alone],
  'the page of the kinds': ['node', 'test/kinds-page.ts'],
  'the API in the console': ['node', 'test/clients/console-types.ts'],
  'types of the console': ['tsc', '--noEmit', ...alone, '--project', 'web'],
  'types of the tests of the console': ['tsc', '--noEmit', ...alone, '--project', 'test/web'],
};
/**
 * Stages run one after the other, the lanes of a stage side by side: what computes beside what waits for an engine or a
 * program. The last one of the longer lane has the machine for itself at its end.
 */
const stages: readonly (readonly (readonly string[])[])[] = [
  [
    ['check', 'unit', 'api', 'sim', 'api-etcd', 'browser'],
    ['programs', 'contract', 'e2e'],
  ],
  [['api-rest', 'api-etcd-rest', 'sim-rest', 'programs-rest', 'e2e-rest', 'browser-rest', 'long', 'fresh']],
];
const parts = stages.flat(2);
/** Those that make containers. */
const onEngine = [
  'programs',
  'programs-rest',
  'contract',
  'e2e',
  'e2e-rest',
  'browser',
  'browser-rest',
  'long',
  'fresh',
];
/** Layers with the tests of another one that are tagged as long: many instants and many variants of what that shows once. */
const longOf: Readonly<Record<string, string>> = {
  'api-rest': 'api',
  'sim-rest': 'sim',
  'programs-rest': 'programs',
  'e2e-rest': 'e2e',
  'browser-rest': 'browser',
};
const byDefault = ['check', 'unit', 'programs', 'contract', 'api', 'api-etcd', 'sim', 'e2e', 'browser'];

/** The start of a program copies the page tables of what starts it: with 600 MiB it takes 35 ms, with 50 MiB 3 ms. */
const small = { MALLOC_ARENA_MAX: '1' };

/** When the output of a program is shown. */
type Output = 'at once' | 'at its end';

interface Tally {
  passed: number;
  failed: number;
}

/** Most files that may fail and pass when they run again alone: more are a defect of the run. */
const mostUnstable = 5;
/** In these layers nothing depends on how fast the machine is: what fails there is a fault at once. */
const deterministic = ['unit', 'sim'];

const { values } = parseArgs({ options: { only: { type: 'string' }, minutes: { type: 'string', default: '75' } } });
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

/** What each part counts, in the order in which they ended; of a layer, the sum of its files. */
const tallies = new Map<string, Tally>();
const layers = new Map<string, Map<string, FileReport>>();
const seconds = new Map<string, number>();
const failures: string[] = [];
const unstable: string[] = [];
const scratch = await mkdtemp(join(tmpdir(), 'setpoint-test-'));
process.once('exit', () => rmSync(scratch, { recursive: true }));
const usesEngine = wanted.some((layer) => onEngine.includes(layer));
try {
  if (usesEngine) {
    for (const line of await clearGround()) console.log(line);
    for (const line of await inspectGround()) console.log(line);
  }
  const before = await containers();
  for (const stage of stages) await runStage(stage.map((lane) => lane.filter((part) => wanted.includes(part))));
  await runFailedAgain();
  const left = usesEngine ? await newContainers(before) : [];
  if (left.length > 0) fail(`Containers left behind, ${left.join(', ')}`, left.length);
} catch (error) {
  console.error(error);
  fail('The run itself', 1);
}
const total = sumOf([...tallies.values()]);
printTimes();
if (unstable.length > 0)
  console.log(`\nUnstable: failed once, and passed when it ran again alone\n${unstable.join('\n')}`);
const lines = [...layers].flatMap(([layer, files]) =>
  [...files.values()].flatMap((file) => file.failures.map((it) => `  ${layer}: ${it}`)),
);
const all = [...lines, ...failures];
if (all.length > 0) console.log(`\nWhat did not pass:\n${all.join('\n')}`);
const verdicts = [...tallies].map(([name, { passed, failed }]) => `${name}: ${passed} passed, ${failed} failed`);
console.log(`\n${verdicts.join('\n')}\n${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);

/** Where several lanes run, the output of each program is shown as a whole when it ends. */
async function runStage(lanes: readonly (readonly string[])[]): Promise<void> {
  const output = lanes.filter((lane) => lane.length > 0).length > 1 ? 'at its end' : 'at once';
  await Promise.all(
    lanes.map(async (lane) => {
      for (const part of lane) {
        const began = performance.now();
        await (part === 'check' ? runChecks(output) : runLayer(part, output));
        seconds.set(part, (performance.now() - began) / 1000);
      }
    }),
  );
}

async function runChecks(output: Output): Promise<void> {
  for (const [name, argv] of Object.entries(checks)) {
    const succeeded = await run(name, argv, output);
    tallies.set(name, succeeded ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 });
  }
}

async function runLayer(layer: string, output: Output): Promise<void> {
  const report = await runFiles(layer, layer, [], output);
  layers.set(layer, new Map(report.files.map((file) => [file.path, file])));
  tallies.set(layer, sumOf(report.files));
  for (const error of report.errors) fail(`${layer}: ${error}`, 1);
}

/** The report of a run of vitest. Whatever kept it from a full report is one of its errors. */
async function runFiles(title: string, layer: string, files: readonly string[], output: Output): Promise<LayerReport> {
  const path = join(scratch, randomUUID());
  const tags = layer in longOf ? longTag : `!${longTag}`;
  const argv = [...vitest, '--project', longOf[layer] ?? layer, '--tags-filter', tags, ...files];
  const succeeded = await run(title, argv, output, { [reportVariable]: path, [tagsVariable]: tags, ...small });
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (text === undefined) return { files: [], errors: ['It ended before it told how its tests ended'] };
  const report = LayerReport.parse(JSON.parse(text));
  const { passed, failed } = sumOf(report.files);
  if (passed + failed === 0) report.errors.push('It has no tests');
  if (!succeeded && failed + report.errors.length === 0) report.errors.push('It failed, and none of its tests did');
  return report;
}

/**
 * Runs each file that failed once more, alone. One that passes then counts as passed, and is named as unstable. The files
 * of a layer that computes only, and more than a few files, are not run again.
 */
async function runFailedAgain(): Promise<void> {
  const failed = [...layers].flatMap(([layer, files]) =>
    [...files.values()].filter((file) => file.failed > 0).map((file) => ({ layer, files, file })),
  );
  const again = failed.filter(({ layer }) => !deterministic.includes(layer));
  if (again.length > mostUnstable) {
    console.log(`\n${again.length} files failed: none runs again, as that is for at most ${mostUnstable}`);
    return;
  }
  for (const { layer, files, file } of again) {
    const report = await runFiles(`${file.path}, again and alone`, layer, [file.path], 'at once');
    const [second] = report.files;
    if (second === undefined || second.failed > 0 || report.errors.length > 0) continue;
    unstable.push(`  ${layer}: ${file.failures[0] ?? file.path}`);
    files.set(file.path, second);
    tallies.set(layer, sumOf([...files.values()]));
  }
}

function sumOf(all: readonly Tally[]): Tally {
  const count = (key: keyof Tally): number => all.reduce((sum, one) => sum + one[key], 0);
  return { passed: count('passed'), failed: count('failed') };
}

/** Counts what failed and is no test. */
function fail(what: string, failed: number): void {
  failures.push(`  ${what}`);
  tallies.set(what, { passed: 0, failed });
}

/** How long each part took, and the files that took longest. */
function printTimes(): void {
  const parts = [...seconds].map(([part, it]) => `${part} ${Math.round(it)} s`);
  const files = [...layers].flatMap(([layer, it]) => [...it.values()].map((file) => ({ layer, ...file })));
  const slowest = files.toSorted((a, b) => b.seconds - a.seconds).slice(0, 10);
  console.log(`\nSeconds: ${parts.join(', ')}`);
  for (const { layer, path, seconds: it } of slowest) console.log(`  ${Math.round(it)} s ${layer}: ${path}`);
}

/**
 * Runs a program of the project's own as the leader of a session, so that what it leaves behind is found, ended and
 * counted as a failure. Resolves with whether the program succeeded.
 */
async function run(
  title: string,
  argv: readonly string[],
  output: Output,
  env: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  if (deadline.aborted) {
    console.error(`Not run, as ${values.minutes} minutes are over`);
    return false;
  }
  const [program = '', ...rest] = argv;
  const path = [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter);
  const compiled = join(root, '.cache', 'code'); // that of the command, as both load the same modules
  console.log(`\n== ${title}${output === 'at once' ? '' : ' begins'}`);
  const file = join(scratch, randomUUID());
  const log = output === 'at once' ? undefined : await open(file, 'w');
  const child = spawn(program, rest, {
    cwd: root,
    stdio: log === undefined ? 'inherit' : ['ignore', log.fd, log.fd],
    detached: true,
    env: { ...process.env, PATH: path, NODE_COMPILE_CACHE: compiled, ...env },
  });
  if (child.pid !== undefined) {
    running.add(child.pid);
    await claimSession(child.pid);
  }
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
  if (child.pid !== undefined) await releaseSession(child.pid);
  if (left.length > 0) {
    const names = left.map((it) => `${it.name} ${it.pid}`).join(', ');
    fail(`Processes left behind, ${names}`, left.length);
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
