import type { DatabaseType } from './engine.ts';
import { DumpFault } from './whole-dump.ts';

/** How a dump that people bring is written: statements, the archive of `pg_dump --format=custom`, or a file of Redis. */
export type DumpFormat = 'sql' | 'custom' | 'rdb';

/** What a dump is, by its first bytes. */
export interface Recognised {
  format: DumpFormat;
  /** What the dump ends with where it is whole, as its head promises; absent: it promises nothing. */
  lastLine?: string;
}

export type Compression = 'gzip' | 'zstd';

/** Bytes of a plain dump by which it is recognised. */
export const headBytes = 4096;

/** How a file is compressed; `undefined`: it is not. @throws DumpFault for a way that the agent cannot undo */
export function compressionOf(head: Uint8Array): Compression | undefined {
  if (begins(head, 0x1f, 0x8b)) return 'gzip';
  if (begins(head, 0x28, 0xb5, 0x2f, 0xfd)) return 'zstd';
  const other = [
    { name: 'xz', isIt: begins(head, 0xfd, 0x37, 0x7a, 0x58, 0x5a) },
    { name: 'bzip2', isIt: begins(head, 0x42, 0x5a, 0x68) },
    { name: 'zip', isIt: begins(head, 0x50, 0x4b, 0x03, 0x04) },
    { name: '7z', isIt: begins(head, 0x37, 0x7a, 0xbc, 0xaf) },
  ].find(({ isIt }) => isIt);
  if (other === undefined) return undefined;
  throw new DumpFault(`It is compressed by ${other.name}: decompress it, or compress it by gzip or zstd`);
}

/** Heads of dumps, the engines that read them, and what is to be done with those that none reads. */
const known: readonly {
  isIt: (text: string, head: Uint8Array) => boolean;
  word: string;
  engines: readonly DatabaseType[];
  is?: Recognised;
  remedy?: string;
}[] = [
  {
    isIt: (text) => text.startsWith('PGDMP'),
    word: 'a dump of PostgreSQL in the custom format',
    engines: ['postgres'],
    is: { format: 'custom' },
  },
  {
    isIt: (text) => /^REDIS\d{4}/.test(text),
    word: 'a file of Redis',
    engines: ['redis'],
    is: { format: 'rdb' },
  },
  {
    isIt: (text) => /^-- PostgreSQL database cluster dump/m.test(text),
    word: 'a dump of a whole server of PostgreSQL',
    engines: [],
    remedy: 'make one of a single database, by pg_dump',
  },
  {
    isIt: (text) => /^-- PostgreSQL database dump/m.test(text),
    word: 'a dump of PostgreSQL',
    engines: ['postgres'],
    is: { format: 'sql', lastLine: '-- PostgreSQL database dump complete' },
  },
  {
    isIt: (text) => /^-- (?:MySQL|MariaDB) dump /m.test(text),
    word: 'a dump of MySQL or MariaDB',
    engines: ['mysql', 'mariadb'],
    is: { format: 'sql', lastLine: '-- Dump completed' },
  },
  {
    isIt: (text) => text.startsWith('SQLite format 3\0'),
    word: 'a database of SQLite',
    engines: [],
    remedy: 'write its data as statements of the engine',
  },
  {
    isIt: (_, head) => begins(head, 0x6d, 0xe2, 0x99, 0x81),
    word: 'an archive of mongodump',
    engines: ['mongodb'],
  },
  {
    isIt: (text) => text.slice(257, 262) === 'ustar',
    word: 'an archive of tar',
    engines: [],
    remedy: 'make a dump in the custom or the plain format',
  },
];

/** What a dump is that goes into a database of that engine. @throws DumpFault if the engine cannot read it */
export function recognised(head: Uint8Array, engine: DatabaseType): Recognised {
  if (head.length === 0) throw new DumpFault('It is empty');
  const text = new TextDecoder('latin1').decode(head.subarray(0, headBytes));
  const row = known.find(({ isIt }) => isIt(text, head));
  if (row !== undefined) {
    if (row.is !== undefined && row.engines.includes(engine)) return row.is;
    throw new DumpFault(`It is ${row.word}, and the database is of ${engine}${row.remedy ? `: ${row.remedy}` : ''}`);
  }
  if (text.includes('\0')) throw new DumpFault('It is no dump of a kind that is known, but other binary data');
  if (engine === 'redis') throw new DumpFault('It is no file of Redis, which begins with REDIS and a version');
  return { format: 'sql' };
}

function begins(head: Uint8Array, ...bytes: readonly number[]): boolean {
  return bytes.every((byte, index) => head[index] === byte);
}

/** The bytes of the end of a dump that are searched for its last line. */
const tailBytes = 4096;

/** Passes a dump on. @throws DumpFault at its end if it does not have the last line that its head promised */
export async function* endingWithLine(
  source: AsyncIterable<Uint8Array>,
  { lastLine }: Pick<Recognised, 'lastLine'>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let tail = Buffer.alloc(0);
  for await (const chunk of source) {
    yield chunk;
    tail = Buffer.concat([tail, chunk.subarray(-tailBytes)]).subarray(-tailBytes);
  }
  if (lastLine === undefined || `\n${tail.toString('latin1')}`.includes(`\n${lastLine}`)) return;
  throw new DumpFault(`It is cut: it does not end with ${JSON.stringify(lastLine)}`);
}
