import type { Duplex } from 'node:stream';
import type { ContextEntry } from '../../build-context.ts';
import { grpcReader, grpcWrite } from './grpc.ts';
import { readMessage, writeMessage } from './protobuf.ts';

/** What a folder has, in the order of a walk: a folder before what is in it, names in the order of their bytes. */
export type SyncFolder = readonly ContextEntry[];

/** Kinds of packets (fsutil, `wire.proto`). */
const packet = { stat: 0, request: 1, data: 2, end: 3, error: 4 } as const;
/** File modes as Go has them. */
const goMode = { folder: 0x80000000, link: 0x08000000 } as const;
const maxPacketBytes = 64 * 1024;
const chunkBytes = 32 * 1024;

/**
 * Sends a folder by the protocol of BuildKit (`FileSync/DiffCopy`): first what each file is, and its content once the
 * engine asks for it. Resolves when the engine has all that it wants. @throws Error if the engine refuses or goes away,
 * or a file cannot be read
 */
export async function sendFiles(stream: Duplex, folder: SyncFolder): Promise<void> {
  const files = new Map<number, Extract<ContextEntry, { type: 'file' }>>();
  const asked: number[] = [];
  let wake = Promise.withResolvers<void>();
  const over = new AbortController();
  const reading = (async () => {
    for await (const message of grpcReader(stream, maxPacketBytes)) {
      const packetIn = readMessage(message);
      const kind = packetIn.number(1);
      if (kind === packet.error)
        throw new Error(`The engine refuses the files: ${packetIn.bytes(4).toString().slice(0, 500)}`);
      if (kind === packet.request) asked.push(packetIn.number(3));
      if (kind === packet.end) break;
      wake.resolve();
    }
    over.abort();
    wake.resolve();
  })();
  const announcing = (async () => {
    let id = 0;
    for (const entry of folder) {
      if (entry.type === 'file') files.set(id, entry);
      id += 1;
      await grpcWrite(stream, writeMessage([[2, stat(entry)]]));
    }
    await grpcWrite(stream, writeMessage([]));
  })();
  const sending = (async () => {
    for (;;) {
      const id = asked.shift();
      if (id === undefined) {
        if (over.signal.aborted) return;
        await wake.promise;
        wake = Promise.withResolvers();
        continue;
      }
      const file = files.get(id);
      if (file === undefined) throw new Error('The engine asks for a file that was not announced');
      files.delete(id);
      for await (const chunk of file.read())
        for (let at = 0; at < chunk.length; at += chunkBytes)
          await grpcWrite(
            stream,
            writeMessage([
              [1, packet.data],
              [3, id],
              [4, chunk.subarray(at, at + chunkBytes)],
            ]),
          );
      await grpcWrite(
        stream,
        writeMessage([
          [1, packet.data],
          [3, id],
        ]),
      );
    }
  })();
  try {
    await Promise.all([
      reading.catch((error: unknown) => {
        over.abort();
        wake.resolve();
        throw error;
      }),
      announcing,
      sending,
    ]);
  } catch (error) {
    const data = Buffer.from('The agent could not send the files');
    await grpcWrite(
      stream,
      writeMessage([
        [1, packet.error],
        [4, data],
      ]),
    ).catch(() => undefined);
    throw error;
  }
  await grpcWrite(stream, writeMessage([[1, packet.end]]));
}

function stat(entry: ContextEntry): Buffer {
  const time = [6, entry.modifiedAt.getTime() * 1e6] as const;
  const path = [1, entry.rawPath ?? entry.path] as const;
  if (entry.type === 'folder') return writeMessage([path, [2, goMode.folder + 0o755], time]);
  if (entry.type === 'link')
    return writeMessage([path, [2, goMode.link + 0o777], time, [7, entry.rawTarget ?? entry.target]]);
  return writeMessage([path, [2, entry.mode], [5, entry.size], time]);
}
