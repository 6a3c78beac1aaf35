import { StringDecoder } from 'node:string_decoder';
import { stripVTControlCharacters } from 'node:util';
import { byteSize } from '../../byte-size.ts';
import type { Hiding } from './hiding.ts';
import type { Trace, Vertex } from './trace.ts';

/** A longer line is passed on in pieces of this length. */
const maxLineChars = 16_384;
/** Of a step that fails, so many last lines are kept. */
const keptLines = 8;
/** Most vertexes of one build: a Dockerfile has far fewer. */
const maxVertexes = 10_000;
/** What the engine does before it reads the Dockerfile, which the agent has judged and sends. */
const unshown = /^\[internal\] load (?:build definition|\.dockerignore|metadata)/;
/** What BuildKit writes in place of output that came too fast. */
const clipped = /^\[output clipped, log limit .* reached\]$/;
/** `[2/4] RUN …`, or `[stage 2/4] RUN …` of one with a name. */
const numbered = /^\[(?:(\S+) )?(\d{1,5})\/(\d{1,5})\] /;

interface Step {
  number: number;
  name: string;
  startedAt: number | undefined;
  isOver: boolean;
  rests: Map<number, { decoder: StringDecoder; text: string; at: number }>;
  last: string[];
}

/** The step that failed, with the last lines of its output. */
export interface FailedStep {
  name: string;
  error: string;
  last: readonly string[];
}

/**
 * Writes what BuildKit tells of a build as lines, in the form of `docker build --progress=plain`: each line begins with
 * the number of its step, and the lines of one step are complete and in order. Secrets are hidden before a line is cut.
 */
export class StepLog {
  readonly #line: (text: string) => void;
  readonly #progress: (done: number, total: number) => void;
  readonly #hidden: Hiding;
  readonly #steps = new Map<string, Step>();
  /** Numbered steps, by digest, and which of them are done. */
  readonly #counted = new Set<string>();
  readonly #done = new Set<string>();
  readonly #told = new Set<string>();
  #shown = 0;
  #failed: FailedStep | undefined;

  constructor(line: (text: string) => void, progress: (done: number, total: number) => void, hidden: Hiding) {
    this.#line = line;
    this.#progress = progress;
    this.#hidden = hidden;
  }

  get failed(): FailedStep | undefined {
    return this.#failed;
  }

  add({ vertexes: told, statuses, logs }: Trace): void {
    const { hide } = this.#hidden;
    const vertexes = told.map((one) => ({ ...one, name: hide(one.name), error: hide(one.error) }));
    for (const one of vertexes) this.#begin(one);
    for (const { vertex, at, stream, text } of logs) {
      const step = this.#steps.get(vertex);
      if (step !== undefined) this.#output(step, stream, at, text);
    }
    for (const { vertex, id, current, startedAt, completedAt } of statuses) {
      const step = this.#steps.get(vertex);
      const key = `${vertex} ${id}`;
      if (step === undefined || completedAt === undefined || this.#told.has(key) || this.#told.size > maxVertexes)
        continue;
      this.#told.add(key);
      const size = current > 0 ? ` ${byteSize(current)}` : '';
      this.#line(`#${step.number} ${id}${size}${seconds(' ', startedAt, completedAt)} done`);
    }
    for (const one of vertexes) this.#end(one);
    this.#count(vertexes);
  }

  /** Writes lines that have no end yet. */
  end(): void {
    for (const step of this.#steps.values()) this.#flush(step);
  }

  #begin({ digest, name, startedAt, isCached }: Vertex): void {
    if (startedAt === undefined && !isCached) return;
    const known = this.#steps.get(digest);
    if (known !== undefined) {
      known.startedAt ??= startedAt;
      return;
    }
    if (unshown.test(name) || this.#steps.size >= maxVertexes) return;
    const number = ++this.#shown;
    this.#steps.set(digest, { number, name, startedAt, isOver: false, rests: new Map(), last: [] });
    for (const text of pieces(oneLine(name))) this.#line(`#${number} ${text}`);
  }

  #end({ digest, name, isCached, startedAt, completedAt, error }: Vertex): void {
    const step = this.#steps.get(digest);
    const isOver = completedAt !== undefined || isCached || error !== '';
    if (error !== '' && !isCancelled(error)) this.#failed ??= { name, error, last: step?.last ?? [] };
    if (step === undefined || step.isOver || !isOver) return;
    step.isOver = true;
    this.#flush(step);
    if (error !== '') this.#line(`#${step.number} ${isCancelled(error) ? 'CANCELED' : `ERROR: ${reasonOf(error)}`}`);
    else if (isCached) this.#line(`#${step.number} CACHED`);
    else this.#line(`#${step.number} DONE${seconds(' ', startedAt, completedAt)}`);
  }

  #output(step: Step, stream: number, at: number, data: Buffer): void {
    const rest = step.rests.get(stream) ?? { decoder: new StringDecoder(), text: '', at };
    step.rests.set(stream, rest);
    if (rest.text === '') rest.at = at;
    const parts = (rest.text + rest.decoder.write(data)).split('\n');
    rest.text = parts.pop() ?? '';
    for (const part of parts) {
      this.#write(step, rest.at, part.replace(/\r$/, ''));
      rest.at = at;
    }
    // A secret that begins before the cut is there to its end.
    if (rest.text.length <= maxLineChars + this.#hidden.longest) return;
    const clean = this.#hidden.hide(rest.text);
    this.#write(step, rest.at, clean.slice(0, maxLineChars));
    rest.text = clean.slice(maxLineChars);
  }

  #flush(step: Step): void {
    for (const { decoder, text, at } of step.rests.values()) {
      const left = text + decoder.end();
      if (left !== '') this.#write(step, at, left);
    }
    step.rests.clear();
  }

  #write(step: Step, at: number, written: string): void {
    const text = this.#hidden.hide(written);
    const since = Math.max(0, at - (step.startedAt ?? at)) / 1000;
    for (const piece of pieces(text)) this.#line(`#${step.number} ${since.toFixed(since < 100 ? 3 : 1)} ${piece}`);
    const plain = stripVTControlCharacters(text);
    if (clipped.test(plain))
      this.#line(
        `#${step.number} The engine left out lines here: let the step print less, or set BUILDKIT_STEP_LOG_MAX_SPEED=-1 in the environment of the engine`,
      );
    if (plain.trim() === '') return;
    step.last.push(plain);
    if (step.last.length > keptLines) step.last.shift();
  }

  #count(vertexes: readonly Vertex[]): void {
    const before = [this.#done.size, this.#counted.size];
    for (const { digest, name, completedAt, isCached, error } of vertexes) {
      if (!numbered.test(name)) continue;
      this.#counted.add(digest);
      if (error === '' && (completedAt !== undefined || isCached)) this.#done.add(digest);
    }
    if (this.#done.size !== before[0] || this.#counted.size !== before[1])
      this.#progress(this.#done.size, this.#counted.size);
  }
}

/** Returns the cause in an error of BuildKit, which begins with what the engine tried. */
export function reasonOf(error: string): string {
  const inner = error.split(/failed to solve(?: with frontend \S+)?: |rpc error: code = \S+ desc = /).at(-1) ?? error;
  // What follows the command of the step, which can be long and have any text in it.
  const tried = /^(?:executor failed running \[.*\]|process ".*" did not complete successfully): (.*)$/s.exec(inner);
  const reason = tried?.[1] ?? inner;
  return /^exit code: \d+/.exec(reason)?.[0] ?? reason.slice(-500);
}

/** Joins the lines of a text, in a time that grows with its length alone: a pattern for the spaces around would not. */
function oneLine(text: string): string {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '').join(' ');
}

function isCancelled(error: string): boolean {
  return error.endsWith('context canceled');
}

function pieces(text: string): string[] {
  if (text.length <= maxLineChars) return [text];
  return Array.from({ length: Math.ceil(text.length / maxLineChars) }, (_, n) =>
    text.slice(n * maxLineChars, (n + 1) * maxLineChars),
  );
}

function seconds(before: string, from: number | undefined, to: number | undefined): string {
  return from === undefined || to === undefined ? '' : `${before}${(Math.max(0, to - from) / 1000).toFixed(1)}s`;
}
