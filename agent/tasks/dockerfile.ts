import { z } from 'zod';
import { imageSource } from '../runtime/image-reference.ts';
import type { DockerfileSource, SourceStep } from '../runtime/dockerfile-source.ts';
import { argumentsOf, expanded, platformArguments, tryExpand } from './dockerfile-arguments.ts';
import {
  dockerfileLines,
  hasDocument,
  inLine,
  instruction,
  lineOf,
  unreadable,
  type Instruction,
} from './dockerfile-lines.ts';
import { flagsOfKit, mountOf } from './dockerfile-kit.ts';
import { neededInstructions } from './dockerfile-stages.ts';
import { upToStage } from './dockerfile-target.ts';

/** An image that a Dockerfile builds upon or copies from. */
export interface UsedImage {
  reference: string;
  /** Names of the stages before the one that begins with this image; `undefined`: files are only copied from it. */
  before: readonly (string | undefined)[] | undefined;
}

export interface ReadDockerfile {
  /**
   * The Dockerfile in a form that every builder reads alike: one line per instruction, full image references, no
   * comments. Each character stands for a byte.
   */
  text: string;
  /** The images used: each once per stage that begins with it, and once if files are copied from it. */
  images: readonly UsedImage[];
  /** Where its instructions come from. */
  source: DockerfileSource;
}

const maxImages = 20;
const maxStages = 100;
/** Most ONBUILD instructions of one base image. */
const maxTriggers = 100;
/** The first major version of the engine whose BuildKit reads here-documents. */
const documentsSince = 23;
/** What a LABEL can have that names a label of the agent: its prefix, or a variable that may become it. */
const couldNameOurs = /setpoint|\$/;

/** What is to build a Dockerfile. */
export interface DockerfileReader {
  /** Major version of the engine if BuildKit builds; absent: the classic builder does. */
  kit?: number | undefined;
  /** A LABEL that the stage of a number begins with, and that no LABEL of the Dockerfile replaces. */
  labelsOf?: (stage: number) => string;
  /** The stage that becomes the image: none after it is read. Absent: the last one. */
  target?: string | undefined;
  /** What the engine makes images for, such as `linux/amd64`, and runs itself. */
  platform?: string | undefined;
  /** Reads stages that the image needs nothing of, too: an image may begin with instructions that use them. */
  everyStage?: boolean;
}

/**
 * Reads which images a Dockerfile needs. The builder gets the text that is written here, not the original, which it
 * could read in another way than this check.
 * @throws RuntimeFailure `invalid_source` for what cannot be checked, `image_not_allowed`, `image_not_found`
 */
export function readDockerfile(
  bytes: Buffer,
  buildArgs: Readonly<Record<string, string>>,
  { kit, labelsOf, target, platform, everyStage = false }: DockerfileReader = {},
): ReadDockerfile {
  const documents = kit !== undefined && kit >= documentsSince ? true : { needs: whatReadsDocuments(kit) };
  const { escape, instructions: all } = dockerfileLines(bytes.toString('latin1'), { documents });
  const globals = globalsOf(all, buildArgs, platform);
  const upTo = target === undefined ? all : upToStage(all, target);
  if (upTo.filter(({ name }) => name === 'FROM').length > maxStages) throw unreadable(`more than ${maxStages} stages`);
  const instructions = everyStage ? upTo : neededInstructions(upTo, (one) => baseOf(one, globals));
  const used = new Map<string, UsedImage>();
  const references = new Set<string>();
  const stages: (string | undefined)[] = [];
  const use = (text: string, before: UsedImage['before']): string => {
    const { reference } = imageSource(text);
    used.set(`${reference} ${before?.length ?? ''}`, { reference, before });
    if (references.add(reference).size > maxImages) throw unreadable(`more than ${maxImages} images`);
    return reference;
  };
  const ours = (): Written[] => (labelsOf === undefined ? [] : [{ text: labelsOf(stages.length), by: undefined }]);
  const written = (one: Instruction): Written[] => {
    if (one.name === 'FROM')
      return [{ text: lineOf(from(one, { globals, stages, kit, platform, use })), by: one }, ...ours()];
    if (one.name === 'ONBUILD') return [{ text: lineOf(onBuild(one, escape, kit)), by: one }];
    const text = lineOf(judged(one, { stages, kit, use: (image) => use(image, undefined) }));
    const isReplaced = one.name === 'LABEL' && couldNameOurs.test(one.rest.replaceAll(/["'\\`]/g, ''));
    return [{ text, by: one }, ...(isReplaced ? ours() : [])];
  };
  const lines = instructions.flatMap((one) => inLine(one.line, () => written(one)));
  const directive = escape === '\\' ? [] : [`# escape=${escape}`];
  return {
    text: [...directive, ...lines.map(({ text }) => text), ''].join('\n'),
    images: [...used.values()],
    source: sourceOf(lines, stages, directive.length),
  };
}

/** An instruction for the builder, and that of the author that it is; `undefined`: it is none. */
interface Written {
  text: string;
  by: Instruction | undefined;
}

/** Instructions that BuildKit counts as steps. */
const counted = new Set(['RUN', 'COPY', 'ADD', 'WORKDIR']);

function sourceOf(
  written: readonly Written[],
  names: readonly (string | undefined)[],
  linesBefore: number,
): DockerfileSource {
  const stages: { name: string | undefined; steps: SourceStep[] }[] = [];
  const instructions = written.map(({ by }) => {
    if (by?.line === undefined) return undefined;
    const [words = ''] = lineOf(by).split('\n');
    const step = { line: by.line, text: Buffer.from(words, 'latin1').toString() };
    if (by.name === 'FROM') stages.push({ name: names[stages.length], steps: [step] });
    else if (counted.has(by.name)) stages.at(-1)?.steps.push(step);
    return step;
  });
  const lines = written.flatMap(({ text, by }) => text.split('\n').map(() => by?.line));
  return { instructions, stages, lines: [...Array.from({ length: linesBefore }, () => undefined), ...lines] };
}

/** The arguments that a FROM may use: those before the first one, and those that builders know of themselves. */
function globalsOf(
  instructions: readonly Instruction[],
  buildArgs: Readonly<Record<string, string>>,
  platform: string | undefined,
): ReadonlyMap<string, string> {
  const globals = new Map(Object.entries(platformArguments(platform)));
  for (const name of globals.keys()) {
    const given = Object.hasOwn(buildArgs, name) ? buildArgs[name] : undefined;
    if (given !== undefined) globals.set(name, given);
  }
  for (const one of instructions) {
    if (one.name === 'FROM') break;
    if (one.name === 'ARG') inLine(one.line, () => argumentsOf(one.rest, globals, buildArgs));
  }
  return globals;
}

/** What a FROM names, as far as it is known. */
function baseOf({ rest }: Instruction, globals: ReadonlyMap<string, string>): string | undefined {
  const [base = ''] = rest.split(/[ \t]+/);
  return tryExpand(base, globals);
}

/**
 * Checks the ONBUILD instructions of an image that a build begins with.
 * @throws RuntimeFailure `invalid_source` if one may not run
 */
export function judgeTriggers({ reference, before }: UsedImage, triggers: readonly string[], kit?: number): void {
  if (triggers.length > maxTriggers)
    throw unreadable(`the base image ${reference}, which has more than ${maxTriggers} ONBUILD`);
  const use = (): never => {
    throw unreadable(`the base image ${reference}, whose ONBUILD copies from an image`);
  };
  for (const trigger of triggers)
    judged(instruction(trigger, '\\'), { stages: [...(before ?? []), undefined], kit, use });
}

function from(
  one: Instruction,
  at: {
    globals: ReadonlyMap<string, string>;
    stages: (string | undefined)[];
    kit: number | undefined;
    platform: string | undefined;
    use: (text: string, before: UsedImage['before']) => string;
  },
): Instruction {
  const [base = '', as, name, ...more] = one.rest.split(/[ \t]+/);
  const isNamed = as?.toLowerCase() === 'as' && name !== undefined && more.length === 0;
  if (base === '' || (as !== undefined && !isNamed))
    throw unreadable(`a FROM that cannot be read: ${one.rest.slice(0, 100)}`);
  const stage = name?.toLowerCase();
  if (stage !== undefined && !/^[a-z][a-z0-9_.-]*$/.test(stage))
    throw unreadable(`a stage that cannot be named ${stage.slice(0, 100)}`);
  const meant = expanded(base, at.globals);
  const isStage = at.stages.includes(meant.toLowerCase());
  const known = isStage ? meant.toLowerCase() : meant === 'scratch' ? meant : at.use(meant, at.stages.slice());
  at.stages.push(stage);
  const flags = at.kit === undefined ? one.flags.flatMap((flag) => platformFlag(flag, at.platform)) : one.flags;
  return { ...one, flags, rest: stage === undefined ? known : `${known} AS ${stage}` };
}

/**
 * The flag of a FROM as a builder reads it that knows no variable in it: the platform of the engine is that of all images
 * without a flag, too.
 */
function platformFlag(flag: string, platform: string | undefined): string[] {
  const value = /^--platform=(.*)$/.exec(flag)?.[1];
  if (value?.includes('$') !== true) return [flag];
  if (/^\$(?:(?:BUILD|TARGET)PLATFORM|\{(?:BUILD|TARGET)PLATFORM\})$/.test(value)) return [];
  throw unreadable(
    `a platform that cannot be determined: ${value.slice(0, 100)}`,
    platform === undefined ? 'Leave the flag out' : `Leave the flag out: the server builds for ${platform}`,
  );
}

function onBuild(one: Instruction, escape: '\\' | '`', kit: number | undefined): Instruction {
  const inner = instruction(one.rest, escape);
  if (one.flags.length > 0 || ['FROM', 'ONBUILD', 'MAINTAINER'].includes(inner.name))
    throw unreadable('an ONBUILD that cannot be');
  const use = (): never => {
    throw unreadable('an ONBUILD that copies from an image or a stage');
  };
  if (inner.name !== 'CMD' && hasDocument(inner)) throw unreadable('an ONBUILD with a here-document');
  judged(inner, { stages: [], kit, use });
  return { ...one, rest: lineOf(inner) };
}

/** Where an instruction stands, and what reads it. */
interface Place {
  /** Names of the stages up to the current one. */
  stages: readonly (string | undefined)[];
  kit: number | undefined;
  /** Notes an image that is copied from. Returns its full reference. */
  use: (text: string) => string;
}

/** Checks an instruction other than FROM. Returns it with the full reference of an image that it copies from. */
function judged(one: Instruction, { stages, kit, use }: Place): Instruction {
  const { name, flags, rest } = one;
  if (kit === undefined && name === 'RUN' && flags.length > 0)
    throw unreadable(`RUN ${flags[0] ?? ''}, which needs BuildKit`, 'Leave the flag out');
  if (name !== 'RUN' && name !== 'COPY' && name !== 'ADD') return one;
  if (one.documents === undefined && hasDocument(one)) throw unreadable('a here-document that cannot be judged');
  if (name === 'ADD') judgeAddresses(rest, kit);
  const before = stages.slice(0, -1);
  if (kit !== undefined) flagsOfKit(one, kit);
  if (kit !== undefined && name === 'RUN') {
    const from = (image: string): string => (before.includes(image.toLowerCase()) ? image : use(image));
    return { ...one, flags: flags.map((flag) => mountOf(flag, from)) };
  }
  return name === 'COPY' ? judgedCopy(one, stages, use) : one;
}

function judgedCopy(one: Instruction, stages: Place['stages'], use: Place['use']): Instruction {
  const { flags } = one;
  const sources = flags.filter((flag) => /^--from/i.test(flag));
  const [flag] = sources;
  if (flag === undefined) return one;
  const value = /^--from=([^$]+)$/.exec(flag)?.[1];
  if (value === undefined || sources.length > 1)
    throw unreadable(
      `a copy that cannot be judged: ${flag.slice(0, 100)}`,
      'Write FROM IMAGE AS NAME before, and COPY --from=NAME',
    );
  const isIndex = /^\d+$/.test(value);
  // The last stage is the current one: it cannot copy from itself.
  if (isIndex && Number(value) >= stages.length - 1) throw unreadable(`no stage ${value} to copy from`);
  if (isIndex || stages.slice(0, -1).includes(value.toLowerCase())) return one;
  return { ...one, flags: flags.map((other) => (other === flag ? `--from=${use(value)}` : other)) };
}

/**
 * Refuses an ADD of an address: the engine would fetch it itself, from outside of the build's network. To BuildKit a
 * source `HOST:PATH` with any user or none is a repository of git, unless a `/` is before the colon. Variables that builders
 * set are as any other: a base image may set them, too.
 */
function judgeAddresses(rest: string, kit: number | undefined): void {
  for (const word of sourcesOf(rest)) {
    const plain = word.replaceAll(/["'\\`]/g, '');
    if (/^[^/]*[:$]/.test(plain) && !(kit === undefined && isFileOfClassic(plain)))
      throw unreadable(
        `an ADD of an address, or of a variable that may be one: ${word.slice(0, 100)}. Fetch it in a RUN, and begin paths with ./`,
      );
  }
}

const schemes = ['http://', 'https://', 'git@', 'git://', 'ssh://', 'ftp://'];

/** Whether a word is a file to the classic builder, which fetches schemes alone, whatever its variables are. */
function isFileOfClassic(word: string): boolean {
  const start = /^([\w.+-]+)\$/.exec(word)?.[1]?.toLowerCase();
  return start !== undefined && !schemes.some((scheme) => scheme.startsWith(start));
}

/** What begins a list, by any builder: some take further characters of Unicode for spaces. */
const couldBeList = /^[\u0080-\u00ff]*\[/;

/** All words but the last one, which is the target. */
function sourcesOf(rest: string): string[] {
  if (!couldBeList.test(rest)) return rest.split(/[ \t]+/).slice(0, -1);
  const list = listIn(rest);
  if (list === undefined)
    throw unreadable(`an ADD of a list that cannot be read: ${rest.slice(0, 100)}`, 'Begin paths with ./');
  return list.slice(0, -1);
}

/** The texts of a list in JSON; `undefined` if it is none. */
function listIn(rest: string): string[] | undefined {
  try {
    return z.array(z.string()).safeParse(JSON.parse(rest)).data;
  } catch {
    return undefined;
  }
}

function whatReadsDocuments(kit: number | undefined): string {
  return kit === undefined ? 'BuildKit' : `Docker ${documentsSince} or later: the server has ${kit}`;
}
