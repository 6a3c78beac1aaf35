/** An instruction of a Dockerfile in the words of its author. */
export interface SourceStep {
  /** Where it begins; the first line is 1. */
  line: number;
  text: string;
}

/** What the instructions that a builder gets are in the Dockerfile of the author. */
export interface DockerfileSource {
  /** By the instructions that the builder gets; `undefined`: the author did not write it. */
  readonly instructions: readonly (SourceStep | undefined)[];
  /** By the lines that the builder gets, the line of the author. */
  readonly lines: readonly (number | undefined)[];
  /** Of each stage the instructions that BuildKit counts. */
  readonly stages: readonly { name: string | undefined; steps: readonly SourceStep[] }[];
}

/** What BuildKit calls a step: `[2/4] RUN …`, `[build 2/4] RUN …`, `[stage-1 2/4] RUN …`. */
const numbered = /^\[(?:(?<stage>\S+) )?(?<nth>\d{1,5})\/(?<total>\d{1,5})\] /;
const maxTextChars = 300;

/** An instruction with its place, in words. */
export function inWords({ line, text }: SourceStep): string {
  return `Dockerfile line ${line}: ${text.replaceAll(/\s+/g, ' ').slice(0, maxTextChars)}`;
}

/** The instruction that BuildKit calls by that name; `undefined`: it is none of the author's. */
export function stepOf(name: string, { stages }: DockerfileSource): SourceStep | undefined {
  const { stage: stageName, nth, total } = numbered.exec(name)?.groups ?? {};
  if (nth === undefined || total === undefined) return undefined;
  const stage = stageName === undefined ? stages.at(-1) : stageOf(stageName, stages);
  // a base image may have instructions of its own, which come first
  const at = (stage?.steps.length ?? 0) - 1 - (Number(total) - Number(nth));
  return at < 0 ? undefined : stage?.steps[at];
}

function stageOf(name: string, stages: DockerfileSource['stages']): DockerfileSource['stages'][number] | undefined {
  const index = /^stage-(\d{1,3})$/.exec(name)?.[1];
  return stages.findLast((one) => one.name === name) ?? (index === undefined ? undefined : stages[Number(index)]);
}
