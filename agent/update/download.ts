import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import type { ReleaseManifest } from '../../agent-protocol/release-manifest.ts';
import type { Clock } from '../../time/clock.ts';
import { UpdateError } from './update-error.ts';

export type ReleaseFile = ReleaseManifest['files'][number];

const limits = {
  manifestBytes: 128 * 1024,
  manifestMs: 30_000,
  /** A download may be still for this long, … */
  stallMs: 60_000,
  /** … and takes at most this long: the control plane serves none for longer. */
  fileMs: 60 * 60_000,
  /** The control plane may ask for a pause of at most this time; it asks for this one where it does not say which. */
  pauseMs: 10 * 60_000,
  usualPauseMs: 30_000,
} as const;

/**
 * The signed manifest of the release that a control plane serves, as it is sent. @throws UpdateError, or the reason of the
 * signal
 */
export async function fetchManifest(url: URL, clock: Clock, signal: AbortSignal): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of bytesOf(url, limits.manifestMs, clock, signal)) {
    length += chunk.length;
    if (length > limits.manifestBytes)
      throw new UpdateError(
        'NoManifest',
        `${url.href} is too large to be the manifest of a release: check the address`,
      );
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch (cause) {
    throw new UpdateError('NoManifest', `${url.href} is not the manifest of a release: check what answers there`, {
      cause,
    });
  }
}

/**
 * Writes an executable of a release to a path, and compares it with its manifest. It is on the disk when this resolves.
 * @throws UpdateError, an error of the disk, or the reason of the signal
 */
export async function fetchFile(
  url: URL,
  { file, path }: { file: ReleaseFile; path: string },
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  await using part = await open(path, 'w', 0o755);
  const hash = createHash('sha256');
  let length = 0;
  for await (const chunk of bytesOf(url, limits.fileMs, clock, signal)) {
    length += chunk.length;
    // what is sent packed could go on for ever
    if (length > file.size) throw otherFile(url, `it has more than ${file.size} bytes`);
    hash.update(chunk);
    await part.writeFile(chunk);
  }
  const found = hash.digest('hex');
  if (length !== file.size) throw otherFile(url, `it has ${length} bytes, and not ${file.size}`);
  if (found !== file.sha256) throw otherFile(url, `its SHA-256 is ${found}`);
  await part.chmod(0o755);
  await part.sync();
}

/** Whether a path has that executable, whole. */
export async function hasFile(path: string, file: ReleaseFile): Promise<boolean> {
  const hash = createHash('sha256');
  let length = 0;
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
      length += chunk.length;
      hash.update(chunk);
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
  return length === file.size && hash.digest('hex') === file.sha256;
}

function otherFile(url: URL, found: string): UpdateError {
  return new UpdateError(
    'OtherFile',
    `${url.href} is not the file of the signed manifest: ${found}. Nothing of it was run. ` +
      'It was changed on the control plane or on its way: find out by whom, build the release again by make release, then ask for the update again',
  );
}

/** The bytes at an address, unpacked. No other address is followed. @throws UpdateError, or the reason of the signal */
async function* bytesOf(url: URL, wholeMs: number, clock: Clock, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const late = new AbortController();
  const after = (ms: number, words: string): (() => void) =>
    clock.timer(ms, () => late.abort(failed(url, `${words} ${Math.round(ms / 1000)} s`)));
  const still = (): (() => void) => after(limits.stallMs, 'nothing came for');
  const cancelWhole = after(wholeMs, 'it did not end within');
  let cancelStill = still();
  const either = AbortSignal.any([signal, late.signal]);
  try {
    const response = await fetch(url, { redirect: 'error', signal: either });
    if (!response.ok)
      throw failed(url, `the answer has status ${response.status}`, { retryAfterMs: pauseOf(response, clock) });
    for await (const chunk of response.body ?? []) {
      cancelStill();
      yield chunk;
      cancelStill = still();
    }
  } catch (error) {
    either.throwIfAborted();
    throw error instanceof UpdateError ? error : failed(url, wordsOf(error), { cause: error });
  } finally {
    cancelWhole();
    cancelStill();
    late.abort(); // a reader that left early reads no more of the answer
  }
}

/** The pause that a control plane asks for which serves enough others now; `undefined`: it asks for none. */
function pauseOf({ status, headers }: Response, clock: Clock): number | undefined {
  if (status !== 429 && status !== 503) return undefined;
  const said = headers.get('retry-after') ?? '';
  const ms = /^\d{1,9}$/.test(said) ? Number(said) * 1000 : Date.parse(said) - clock.now().getTime();
  if (Number.isNaN(ms)) return status === 429 ? limits.usualPauseMs : undefined;
  return Math.min(Math.max(ms, 1000), limits.pauseMs);
}

function failed(
  url: URL,
  why: string,
  about: { retryAfterMs?: number | undefined; cause?: unknown } = {},
): UpdateError {
  const message = `${url.href} could not be fetched: ${why}. Check that this machine reaches the control plane there, and that it has the release, then ask for the update again`;
  return new UpdateError('DownloadFailed', message, { isPassing: true, ...about });
}

/** The error of `fetch` says nothing; its cause does. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? wordsOf(error.cause) : error.message;
}
