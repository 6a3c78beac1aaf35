/**
 * Runs the benchmarks of this folder one after the other, prints a table, and keeps the figures as JSON in
 * `bench/results`. A goal that is missed is told, not failed: only a benchmark that breaks makes the run fail.
 * Usage: node bench/run.ts [part of a name]…
 */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { measure } from './measure.ts';
import type { Result, Spread } from './measure.ts';

const folder = import.meta.dirname;
const suffix = '.bench.ts';
const wanted = process.argv.slice(2);
const names = (await readdir(folder))
  .filter((file) => file.endsWith(suffix))
  .map((file) => file.slice(0, -suffix.length))
  .filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)))
  .toSorted();

const results: ({ bench: string; id: string } & Result)[] = [];
for (const name of names) {
  try {
    // Every file of this name exports its benchmark under this name.
    const { bench } = (await import(join(folder, `${name}${suffix}`))) as { bench: Bench };
    await bench.run({
      compare: async (measurement) => {
        const result = await measure(measurement);
        results.push({ bench: name, id: bench.id, ...result });
        console.log(`\n${bench.id}  ${result.what}\n${describe(result)}`);
        return result;
      },
    });
  } catch (error) {
    console.error(`\n${name} broke`, error);
    process.exitCode = 1;
  }
}

const missed = results.filter((result) => !result.met);
console.log(`\n${results.length - missed.length} of ${results.length} goals met`);
const machine = { cpu: cpus()[0]?.model, cores: availableParallelism(), memory: totalmem(), kernel: release() };
const at = new Date().toISOString();
await mkdir(join(folder, 'results'), { recursive: true });
const file = join(folder, 'results', `${at.replaceAll(':', '-')}.json`);
await writeFile(file, `${JSON.stringify({ at, node: process.version, machine, results }, undefined, 2)}\n`);
console.log(file);

function describe({ unit, goal, raw, ours, ratio, met }: Result): string {
  const asked = 'atMost' in goal ? `at most ${goal.atMost}` : `at least ${goal.atLeast}`;
  const rows = [
    raw && `  raw    ${figures(raw)}  ${unit}`,
    `  ours   ${figures(ours)}  ${unit}`,
    ratio && `  ratio  ${figures(ratio)}`,
    `  goal   ${asked}: ${met ? 'met' : 'missed'}`,
  ];
  return rows.filter((row) => row !== undefined).join('\n');
}

function figures({ median, min, max }: Spread): string {
  return [median, min, max].map((figure, index) => `${['median', 'min', 'max'][index]} ${short(figure)}`).join('  ');
}

/** Three significant digits, or all before the point. */
function short(figure: number): string {
  return (Math.abs(figure) >= 100 ? Math.round(figure).toString() : figure.toPrecision(3)).padStart(7);
}
