/**
 * Runs one disturbed scenario again and tells how its end differs from the undisturbed one. A failure of the simulation
 * prints the line that runs this; TEST_LOG=info shows what the product logged, by the simulated time.
 */
import { isDeepStrictEqual, inspect } from 'node:util';
import { kinds, scenarioNamed, simulate } from './simulate.ts';
import type { Disturbance, Kind } from './simulate.ts';

const { SIM_SCENARIO = '', SIM_SEED = '1', SIM_FAULT = '' } = process.env;
const scenario = scenarioNamed(SIM_SCENARIO);
const seed = Number(SIM_SEED);
const disturbances = SIM_FAULT.split(',')
  .filter((it) => it !== '')
  .map(parse);
const expected = await simulate(scenario, seed);
const outcome = await simulate(scenario, seed, disturbances);
const isSame = isDeepStrictEqual(outcome.state, expected.state) && outcome.broken.length === 0;
for (const law of outcome.broken) console.log(`Broken: ${law}`);
for (const line of differences(expected.state, outcome.state, '')) console.log(line);
console.log(isSame ? 'It ends as the undisturbed run does' : 'It does not end as the undisturbed run does');
process.exit(isSame ? 0 : 1);

function parse(text: string): Disturbance {
  const [kind, at] = text.split('@');
  if (!isKind(kind) || !Number.isInteger(Number(at)))
    throw new Error(`SIM_FAULT must be KIND@NUMBER,… with ${kinds.join(', ')}: got ${text}`);
  return { kind, at: Number(at) };
}

function isKind(text: string | undefined): text is Kind {
  return kinds.some((kind) => kind === text);
}

function differences(before: unknown, after: unknown, path: string): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (isObject(before) && isObject(after))
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
      differences(before[key], after[key], `${path}/${key}`),
    );
  return [`${path}: ${inspect(before, { depth: 4 })} became ${inspect(after, { depth: 4 })}`];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
