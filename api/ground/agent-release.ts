import { createHash } from 'node:crypto';
import { open, readFile, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { Logger } from 'pino';
import { openRelease, packedName } from '../../agent-protocol/release-manifest.ts';
import type { ReleaseManifest } from '../../agent-protocol/release-manifest.ts';
import { ApiError } from './api-error.ts';

/** An executable, or the licences of what is in them. */
export type ReleaseFile = Omit<ReleaseManifest['files'][number], 'platform'>;

export interface AgentRelease {
  manifest: ReleaseManifest;
  /** The signed manifest, as it is stored. */
  signed: string;
}

/** The release of the agent that this replica serves, as it lies on its disk at each call. */
export interface AgentReleases {
  /** `undefined`: there is none. @throws ApiError SERVICE_UNAVAILABLE if it is damaged */
  current(): Promise<AgentRelease | undefined>;
  /**
   * Opens one of its files, which the caller closes. Its bytes are those of the manifest: they are compared before
   * the first time, and again when the file has changed. @throws ApiError SERVICE_UNAVAILABLE if they differ
   */
  open(file: ReleaseFile): Promise<FileHandle>;
  /** The same for its gzip; `undefined` if there is none. */
  openPacked(file: ReleaseFile): Promise<FileHandle | undefined>;
}

const maxManifestBytes = 128 * 1024;
/** Files whose comparison is remembered: those of a few releases. */
const maxRemembered = 32;

/** The release in a folder that `make release` has filled; without a folder there is none. */
export function agentReleases(folder: string | undefined, log: Logger): AgentReleases {
  const damaged = (error: unknown): ApiError => {
    log.error(
      { err: error, folder },
      'The release of the agent cannot be served: no agent is installed or updated from this replica. Build it again by make release, or copy its folder again',
    );
    return new ApiError(
      'SERVICE_UNAVAILABLE',
      'The release of the agent on this replica is damaged: its operator finds the reason in the log',
      { retryAfter: 60 },
    );
  };
  let known: { state: string; release: AgentRelease } | undefined;
  /** By the state of a file: whether it has the bytes of its manifest. */
  const compared = new Map<string, Promise<void>>();

  const current = async (): Promise<AgentRelease | undefined> => {
    if (folder === undefined) return undefined;
    const path = join(folder, 'manifest.json');
    try {
      const found = await stat(path, { bigint: true }).catch((error: unknown) => {
        if (isAbsent(error)) return undefined;
        throw error;
      });
      if (found === undefined) return undefined;
      const state = stateOf(found);
      if (known?.state === state) return known.release;
      if (found.size > maxManifestBytes) throw new Error(`${path} is too large to be a manifest`);
      const signed = await readFile(path, 'utf8');
      const manifest = openRelease(JSON.parse(signed), 'any');
      known = { state, release: { manifest, signed } };
      return known.release;
    } catch (error) {
      throw damaged(error);
    }
  };

  const opened = async (file: ReleaseFile, form: Form): Promise<FileHandle> => {
    await using stack = new AsyncDisposableStack();
    const name = form === 'gzip' ? packedName(file.name) : file.name;
    const handle = stack.use(await open(join(folder ?? '', name), 'r'));
    const state = `${stateOf(await handle.stat({ bigint: true }))} ${file.sha256}`;
    const comparison = compared.get(state) ?? compare(handle, file, form);
    if (compared.size >= maxRemembered) compared.clear();
    compared.set(state, comparison);
    await comparison;
    stack.move();
    return handle;
  };
  return {
    current,
    open: (file) =>
      opened(file, 'plain').catch((error: unknown) => {
        throw damaged(error);
      }),
    openPacked: (file) =>
      opened(file, 'gzip').catch((error: unknown) => {
        if (isAbsent(error)) return undefined;
        throw damaged(error);
      }),
  };
}

type Form = 'plain' | 'gzip';

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Differs when a file was replaced or written to. */
function stateOf(it: { dev: bigint; ino: bigint; size: bigint; mtimeNs: bigint; ctimeNs: bigint }): string {
  return [it.dev, it.ino, it.size, it.mtimeNs, it.ctimeNs].join(' ');
}

/** @throws Error if the file, unpacked if it is a gzip, has other bytes than its manifest says */
async function compare(handle: FileHandle, { name, size, sha256 }: ReleaseFile, form: Form): Promise<void> {
  const hash = createHash('sha256');
  let length = 0;
  const content = handle.createReadStream({ start: 0, autoClose: false, highWaterMark: 1 << 20 });
  const plain = form === 'gzip' ? [createGunzip({ chunkSize: 1 << 20 })] : [];
  await pipeline([
    content,
    ...plain,
    async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        length += chunk.length;
        // a gzip could go on for ever
        if (length > size) throw new Error(`${name} is not the file of the manifest: it has more bytes, as ${form}`);
        hash.update(chunk);
      }
    },
  ]);
  const found = hash.digest('hex');
  if (found !== sha256 || length !== size)
    throw new Error(`${name} is not the file of the manifest: ${length} bytes with SHA-256 ${found}, as ${form}`);
}
