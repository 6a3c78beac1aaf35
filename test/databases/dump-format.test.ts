import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { compressionOf, endingWithLine, recognised } from '../../databases/dump-format.ts';
import { postgres } from '../../databases/postgres.ts';
import { withoutSandboxLine } from '../../databases/sandbox-line.ts';

const bytes = (content: string): Buffer => Buffer.from(content, 'latin1');
const postgresHead = '--\n-- PostgreSQL database dump\n--\n\n\\restrict a\n';

test.each([
  ['postgres', 'PGDMP\x01\x0e', { format: 'custom' }],
  ['postgres', postgresHead, { format: 'sql', lastLine: '-- PostgreSQL database dump complete' }],
  ['postgres', 'CREATE TABLE t (n int);', { format: 'sql' }],
  ['mysql', '-- MySQL dump 10.13  Distrib 8.4.2\n', { format: 'sql', lastLine: '-- Dump completed' }],
  [
    'mysql',
    '/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19\n',
    { format: 'sql', lastLine: '-- Dump completed' },
  ],
  ['mariadb', 'INSERT INTO t VALUES (1);', { format: 'sql' }],
  ['redis', 'REDIS0012\xfa', { format: 'rdb' }],
] as const)('%s reads %j', (engine, head, is) => {
  expect(recognised(bytes(head), engine)).toEqual(is);
});

test.each([
  ['mysql', postgresHead, 'a dump of PostgreSQL, and the database is of mysql'],
  ['mysql', 'PGDMP', 'in the custom format, and the database is of mysql'],
  ['postgres', '-- MySQL dump 10.13\n', 'a dump of MySQL or MariaDB, and the database is of postgres'],
  ['postgres', 'REDIS0012', 'a file of Redis'],
  ['redis', 'SET a 1\n', 'no file of Redis'],
  ['postgres', '--\n-- PostgreSQL database cluster dump\n--\n', 'by pg_dump'],
  ['postgres', 'SQLite format 3\0', 'SQLite'],
  ['postgres', '\x6d\xe2\x99\x81', 'mongodump'],
  ['postgres', `toc.dat${'\0'.repeat(250)}ustar`, 'an archive of tar'],
  ['mysql', 'a\0b', 'other binary data'],
  ['mysql', '', 'empty'],
] as const)('%s does not read %j', (engine, head, why) => {
  expect(() => recognised(bytes(head), engine)).toThrow(why);
});

test('gzip and zstd are known by their first bytes, and what cannot be undone is named', () => {
  expect(compressionOf(bytes('\x1f\x8b\x08'))).toBe('gzip');
  expect(compressionOf(bytes('\x28\xb5\x2f\xfd'))).toBe('zstd');
  expect(compressionOf(bytes('SELECT 1;'))).toBeUndefined();
  expect(() => compressionOf(bytes('BZh91AY'))).toThrow('bzip2');
  expect(() => compressionOf(bytes('PK\x03\x04'))).toThrow('zip');
});

const read = (chunks: readonly string[], lastLine?: string): Promise<string> =>
  text(
    Readable.from(
      endingWithLine(Readable.from(chunks.map((it) => Buffer.from(it))), lastLine === undefined ? {} : { lastLine }),
    ),
  );

test('a dump that promises a last line is whole only with it', async () => {
  const whole = ['SELECT 1;\n-- Dump comp', 'leted on 2026-01-01\n'];
  expect(await read(whole, '-- Dump completed')).toBe(whole.join(''));
  await expect(read(['SELECT 1;\n'], '-- Dump completed')).rejects.toThrow('It is cut');
  expect(await read(['SELECT 1;\n'])).toBe('SELECT 1;\n');
});

test('the first line of newer dumps of MariaDB is left out, and nothing else', async () => {
  const line = '/*M!999999\\- enable the sandbox mode */ \n';
  const rest = `-- MariaDB dump\n${line}${'x'.repeat(300)}`;
  const pass = (chunks: readonly string[]): Promise<string> =>
    text(Readable.from(withoutSandboxLine(Readable.from(chunks.map((it) => Buffer.from(it))))));
  expect(await pass([line, rest])).toBe(rest);
  expect(await pass(`${line}${rest}`.split(''))).toBe(rest);
  expect(await pass([rest])).toBe(rest);
  expect(await pass([line.replace('M', '')])).toBe('');
});

test('psql refuses commands itself where its release can', () => {
  const restricts = (release: string): boolean =>
    postgres.imports?.sql('app', { release, key: 'k3y' }).before === '\\restrict k3y\n';
  expect(['17.6', '17.10', '18.0', '15.14', '16.12'].map(restricts)).not.toContain(false);
  expect(['17.5', '15.13', '16.9', ''].map(restricts)).not.toContain(true);
});
