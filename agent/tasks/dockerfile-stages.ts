import type { Instruction } from './dockerfile-lines.ts';

interface Stage {
  name: string | undefined;
  from: Instruction;
  rest: Instruction[];
}

/**
 * The instructions of a Dockerfile without those of stages that the last one needs nothing of: no builder has to carry them
 * out, and their images need not be there. Numbers of stages are written anew. `baseOf`: the image or stage that a FROM
 * names; `undefined`: it is not known.
 */
export function neededInstructions(
  instructions: readonly Instruction[],
  baseOf: (from: Instruction) => string | undefined,
): readonly Instruction[] {
  const stages: Stage[] = [];
  const head: Instruction[] = [];
  for (const one of instructions) {
    const stage = stages.at(-1);
    if (one.name === 'FROM') stages.push({ name: stageName(one), from: one, rest: [] });
    else if (stage === undefined) head.push(one);
    else stage.rest.push(one);
  }
  const needed = new Set<number>();
  const waiting = [stages.length - 1];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (at < 0 || needed.has(at)) continue;
    needed.add(at);
    waiting.push(...usedBy(at, stages, baseOf));
  }
  if (needed.size === stages.length) return instructions;
  const kept = stages.map((stage, at) => ({ stage, at })).filter(({ at }) => needed.has(at));
  const numbers = new Map(kept.map(({ at }, now) => [at, now]));
  return [
    ...head,
    ...kept.flatMap(({ stage: { from, rest } }) => [from, ...rest.map((one) => renumbered(one, numbers))]),
  ];
}

/** The name of the stage that a FROM begins; `undefined`: it has none. */
export function stageName(from: Instruction | undefined): string | undefined {
  const [, as, name] = from?.rest.split(/[ \t]+/) ?? [];
  return as?.toLowerCase() === 'as' ? name?.toLowerCase() : undefined;
}

/** The earlier stages that a stage begins with or takes files of. */
function usedBy(
  at: number,
  stages: readonly Stage[],
  baseOf: (from: Instruction) => string | undefined,
): readonly number[] {
  const stage = stages[at];
  if (stage === undefined) return [];
  const names = stage.rest.flatMap(sourcesOf);
  const base = baseOf(stage.from);
  const named = new Set([...names, ...(base === undefined ? [] : [base])].map((name) => name.toLowerCase()));
  const numbers = names.filter((name) => /^\d{1,4}$/.test(name)).map(Number);
  return [
    ...stages.slice(0, at).flatMap(({ name }, index) => (name !== undefined && named.has(name) ? [index] : [])),
    ...numbers.filter((index) => index < at),
  ];
}

/** What an instruction takes files of. */
function sourcesOf({ name, flags }: Instruction): string[] {
  return flags.flatMap((flag) => {
    if (name === 'COPY') return /^--from=(.+)$/i.exec(flag)?.[1] ?? [];
    if (name !== 'RUN' || !flag.startsWith('--mount=')) return [];
    return flag
      .slice('--mount='.length)
      .split(',')
      .flatMap((field) => /^from=(.+)$/i.exec(field)?.[1] ?? []);
  });
}

function renumbered(one: Instruction, numbers: ReadonlyMap<number, number>): Instruction {
  if (one.name !== 'COPY') return one;
  const flags = one.flags.map((flag) => {
    const number = /^--from=(\d{1,4})$/.exec(flag)?.[1];
    const now = number === undefined ? undefined : numbers.get(Number(number));
    return now === undefined ? flag : `--from=${now}`;
  });
  return { ...one, flags };
}
