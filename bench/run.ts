/**
 * Runs the benchmarks of this folder one after the other, prints a table, and stores the figures as JSON in
 * `bench/results`. A missed goal is only shown: the run fails only if a benchmark throws. In the short form each
 * measures one pair, which shows that it runs and no figure worth keeping: nothing is stored.
 * Usage: node bench/run.ts [--short] [--only part-of-a-name,…]
 */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench } from './bench.ts';
import { measure, measureAll } from './measure.ts';
import type { Result } from './measure.ts';
import { describe, table } from './table.ts';
import type { Row } from './table.ts';

const folder = import.meta.dirname;
const suffix = '.bench.ts';
const { values, positionals } = parseArgs({
  options: { only: { type: 'string' }, short: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const form = values.short ? { rounds: 1, warmUps: 0 } : {};
const wanted = [...(values.only?.split(',') ?? []), ...positionals];
const names = (await readdir(folder))
  .filter((file) => file.endsWith(suffix))
  .map((file) => file.slice(0, -suffix.length))
  .filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)))
  .toSorted();

const results: Row[] = [];
for (const name of names) {
  try {
    // Every file of this name exports its benchmark under this name.
    const { bench } = (await import(join(folder, `${name}${suffix}`))) as { bench: Bench };
    const keep = (result: Result): Result => {
      results.push({ bench: name, id: bench.id, ...result });
      console.log(`\n${bench.id}  ${result.what}\n${describe(result)}`);
      return result;
    };
    await bench.run({
      compare: async (measurement) => keep(await measure({ ...measurement, ...form })),
      compareAll: async (comparison) => {
        const all = await measureAll({ ...comparison, ...form });
        for (const result of Object.values<Result>(all)) keep(result);
        return all;
      },
    });
  } catch (error) {
    console.error(`\n${name} broke`, error);
    process.exitCode = 1;
  }
}

const asked = results.filter((result) => result.met !== undefined);
console.log(`\n${table(results)}\n\n${asked.filter((result) => result.met).length} of ${asked.length} goals met`);
if (values.short) process.exit();
const machine = { cpu: cpus()[0]?.model, cores: availableParallelism(), memory: totalmem(), kernel: release() };
const at = new Date().toISOString();
await mkdir(join(folder, 'results'), { recursive: true });
const file = join(folder, 'results', `${at.replaceAll(':', '-')}.json`);
await writeFile(file, `${JSON.stringify({ at, node: process.version, machine, results }, undefined, 2)}\n`);
console.log(file);
