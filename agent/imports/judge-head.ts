import type { FileHandle } from 'node:fs/promises';
import { constants, gunzipSync, zstdDecompressSync } from 'node:zlib';
import type { DatabaseType } from '../../databases/engine.ts';
import { compressionOf, headBytes, recognised } from '../../databases/dump-format.ts';
import { DumpFault } from '../../databases/whole-dump.ts';
import { ImportFault } from './import-fault.ts';

/** Bytes of a file that suffice to decompress those by which a dump is recognised: a block of zstd has up to 128 KiB. */
export const judgedBytes = 256 * 1024;

/**
 * Refuses what the engine cannot read, as far as its first bytes show that; fewer than {@link judgedBytes} are all.
 *
 * @throws ImportFault `invalid_dump`
 */
export function judgeHead(head: Uint8Array, engine: DatabaseType): void {
  try {
    const plain = plainHead(head);
    if (plain !== undefined) recognised(plain, engine);
  } catch (error) {
    throw asImportFault(error);
  }
}

/** The same, of a file. @throws ImportFault `invalid_dump` */
export async function judgeFile(file: FileHandle, engine: DatabaseType): Promise<void> {
  const head = Buffer.alloc(judgedBytes);
  const { bytesRead } = await file.read(head, 0, head.length, 0);
  judgeHead(head.subarray(0, bytesRead), engine);
}

function asImportFault(error: unknown): unknown {
  if (!(error instanceof DumpFault)) return error;
  return new ImportFault('invalid_dump', `The dump cannot be imported: ${error.message}`, { cause: error });
}

/** The beginning of what is compressed; `undefined`: these bytes do not show it. */
function plainHead(head: Uint8Array): Uint8Array | undefined {
  const compression = compressionOf(head);
  if (compression === undefined) return head;
  const most = { maxOutputLength: 64 * 1024 * 1024 };
  try {
    const plain =
      compression === 'gzip'
        ? gunzipSync(head, { finishFlush: constants.Z_SYNC_FLUSH, ...most })
        : zstdDecompressSync(head, { finishFlush: constants.ZSTD_e_flush, ...most });
    const isAll = head.length < judgedBytes;
    return plain.length < headBytes && !isAll ? undefined : plain;
  } catch {
    return undefined; // it is told once all of it is decompressed
  }
}
