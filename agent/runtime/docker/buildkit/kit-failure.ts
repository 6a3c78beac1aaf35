import { inWords, stepOf, type DockerfileSource } from '../../dockerfile-source.ts';
import { RuntimeFailure } from '../../runtime.ts';
import { failureOf, type Fallback } from '../failure.ts';
import { reasonOf, type FailedStep } from './step-log.ts';

/** Size of the tail of a step's output in a message. */
const maxTailChars = 1500;
/** What a program, or the shell around it, says that the kernel ended or that got no memory. */
const lacksMemory = /\bkilled\b|out of memory|cannot allocate memory|\bENOMEM\b|exit code: 137\b/i;

export const fallback: Fallback = {
  code: 'build_failed',
  attempted: 'Build failed',
  codes: ['no_space', 'image_not_found'],
};

/**
 * Returns the failure of a build that ended with `error`. `reachedMemory`: the builds of the server together reached their
 * limit of memory meanwhile. They also do so with files that the kernel then forgets, or by another build, so that it is
 * named as the cause only of a step that shows it.
 */
export function kitFailure(
  error: string,
  failed: FailedStep | undefined,
  reachedMemory: boolean,
  source?: DockerfileSource,
): RuntimeFailure {
  if (failed === undefined) return failureOf(inLinesOf(source, reasonOf(error)), false, fallback);
  if (isFull(error)) return failureOf(error, false, fallback);
  const { name, last } = failed;
  const output = last.join('\n');
  const missing = /secret (\S+?):? not found/.exec(error)?.[1];
  const lacks =
    missing === undefined ? '' : `: the application has no build secret ${missing}. Add it to build_secrets`;
  const reason = missing === undefined ? reasonOf(failed.error === '' ? error : failed.error) : 'a secret is missing';
  const isOut = reachedMemory && lacksMemory.test(`${reason}\n${output}`);
  const out = isOut
    ? ', which may be for being out of memory: all builds of the server together reached their limit'
    : '';
  const tail = last.length === 0 ? '' : `\n${output.slice(-maxTailChars)}`;
  const written = source === undefined ? undefined : stepOf(name, source);
  const step = written === undefined ? name.replaceAll(/\s+/g, ' ').slice(0, 300) : inWords(written);
  // The engine has the exit code of the step alone: the output of its program says why.
  if (isFull(output))
    return new RuntimeFailure('no_space', `Build failed: ${step}: no space is left on the disk of the engine${tail}`, {
      retryable: true,
    });
  return new RuntimeFailure('build_failed', `Build failed: ${step}: ${reason}${lacks}${out}${tail}`, {
    retryable: false,
  });
}

function isFull(text: string): boolean {
  return /no space left on device/i.test(text);
}

/** The text with the lines of the author in place of those that the engine got. */
function inLinesOf(source: DockerfileSource | undefined, text: string): string {
  return text.replace(/\bon line (\d{1,6})\b/, (whole, line: string) => {
    const own = source?.lines[Number(line) - 1];
    return own === undefined ? whole : `on line ${own}`;
  });
}
