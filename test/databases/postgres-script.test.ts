import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { safeScript } from '../../databases/postgres-script.ts';
import { DumpFault } from '../../databases/whole-dump.ts';

const open = { isRestricted: false };

function passed(script: string, { size = 64 * 1024, ...around } = { ...open, size: 64 * 1024 }): Promise<string> {
  const bytes = Buffer.from(script);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
  return text(Readable.from(safeScript(Readable.from(chunks), around)));
}

/** As `pg_dump` writes it, with all that may hold a backslash or a semicolon. */
const dump = [
  '--',
  '-- PostgreSQL database dump',
  '--',
  '',
  'SET standard_conforming_strings = on; -- \\! is of the comment',
  '/* \\! of a comment /* in one */ \\! */',
  'CREATE TABLE public."odd \\! ""name" (id integer, note text DEFAULT \'\\! it\'\'s\');',
  "INSERT INTO t VALUES (E'a\\'; \\\\! b', 'c;d');",
  'CREATE FUNCTION public.f() RETURNS text LANGUAGE plpgsql AS $body$ BEGIN RETURN $$\\! x;$$; END $body$;',
  'CREATE FUNCTION public.g(a int) RETURNS int',
  '    BEGIN ATOMIC',
  '  SELECT CASE WHEN ($1 > 0) THEN 1 ELSE 2 END;',
  '  SELECT 3;',
  'END;',
  'COPY public.notes (id, note) FROM stdin;',
  '1\tc:\\\\dir \\! $$ \' " -- /*',
  '\\.x',
  '\\N',
  '\\.',
  '',
  "SELECT pg_catalog.setval('public.notes_id_seq', 1, true);",
  '',
].join('\n');

test('what pg_dump writes is passed on as it is, in pieces of any size', async () => {
  expect(await passed(dump)).toBe(dump);
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 200 }), async (size) => {
      expect(await passed(dump, { ...open, size })).toBe(dump);
    }),
    { numRuns: 30 },
  );
});

test.each([
  ['the restriction of newer dumps', '\\restrict aB3\nSELECT 1;\n\\unrestrict aB3\n', '\nSELECT 1;\n\n'],
  ['an owner', 'ALTER TABLE public.t OWNER TO bob;\nSELECT 1;', '\nSELECT 1;'],
  ['an owner with a name in quotes', 'ALTER FUNCTION public.f(a integer) OWNER TO "b;ob";', ''],
  ['privileges', 'GRANT SELECT ON TABLE t TO reader;\nREVOKE ALL ON SCHEMA public FROM PUBLIC;\n', '\n\n'],
  ['privileges of what comes later', 'ALTER DEFAULT PRIVILEGES FOR ROLE bob GRANT SELECT ON TABLES TO ann;', ''],
  ['a schema that each database has', 'CREATE SCHEMA public;\nCREATE SCHEMA shop;', '\nCREATE SCHEMA shop;'],
])('%s is left out', async (_, script, left) => {
  expect(await passed(script)).toBe(left);
  expect(await passed(script, { ...open, size: 1 })).toBe(left);
});

test.each([
  'COPY "t"FROM stdin',
  'COPY"t"(a)FROM STDIN',
  'copy U&"t" from stdin with csv',
  'COPY public . t FROM/**/stdin',
])('data follows %s', async (copy) => {
  const script = `${copy};\n1\t'\n\\.\nSELECT 1;\n`;
  expect(await passed(script)).toBe(script);
  expect(await passed(script, { ...open, size: 1 })).toBe(script);
  await expect(passed(script.replace('SELECT 1', '\\! touch'))).rejects.toThrow('Line 4 has \\!');
});

test('no statement that is empty comes after data, where psql takes it for another COPY', async () => {
  const data = 'COPY t FROM stdin;\n1\n\\.\n';
  for (const size of [1, 1000])
    expect(await passed(`${data};;/* none */ ;\nSELECT 1;`, { ...open, size })).toBe(`${data}/* none */ \nSELECT 1;`);
});

test.each([
  ['SELECT 1', 'SELECT 1\n;'],
  ['SELECT 1;\n-- no more', 'SELECT 1;\n-- no more'],
  ['SELECT 1 -- no more', 'SELECT 1 -- no more\n;'],
  ['ALTER TABLE t OWNER TO bob', ''],
  ['COPY t FROM stdin;\n1\n\\.', 'COPY t FROM stdin;\n1\n\\.'],
  ['\\unrestrict aB3', '\n'],
])('the last statement of %j ends', async (script, left) => {
  for (const size of [1, 1000]) expect(await passed(script, { ...open, size })).toBe(left);
});

test.each([
  ['SELECT (1', 'Line 1 is the last one, and within a statement'],
  ["SELECT 1;\nSELECT 'a", 'Line 2 is the last one, and within a text'],
  ["SELECT E'a\\'", 'within a text'],
  ['SELECT $x$ a $', 'within a text'],
  ['SELECT "a', 'within a name in quotes'],
  ['SELECT 1; /* /* */', 'within a comment'],
  ['COPY t FROM stdin', 'within a COPY, before its data'],
  ['COPY t FROM stdin;\n1\n', 'within the data of a COPY'],
  ['COPY t FROM stdin;\n1\\.', 'within the data of a COPY'],
  ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1;', 'within a statement'],
])('a script that is cut is refused at its end: %j', async (script, why) => {
  for (const size of [1, 1000]) await expect(passed(script, { ...open, size })).rejects.toThrow(why);
});

test('what only looks like a statement of roles stays', async () => {
  const script =
    'SELECT \'ALTER TABLE t OWNER TO bob;\';\nSELECT 1 AS "GRANT x";\n-- GRANT y;\nALTER TABLE t ADD a int;';
  expect(await passed(script)).toBe(script);
});

test.each([
  ['\\! touch /tmp/x\n', 'Line 1 has \\!'],
  ['SELECT 1;\nSELECT 2 \\! touch /tmp/x\n', 'Line 2 has \\!'],
  ["\\copy t from program 'touch /tmp/x'\n", 'Line 1 has \\copy'],
  ['\\o |touch /tmp/x\n', 'Line 1 has \\o'],
  ['SELECT 1 \\g |touch\n', 'Line 1 has \\g'],
  ['\\restrict a \\! touch\n', 'Line 1 has \\restrict'],
  ['\\connect other\n', 'Line 1 has \\connect'],
  ['SELECT (1;\n\\! x\n', 'Line 2 has \\!'],
  ['COPY t FROM stdin; \\! touch\n1\n\\.\n', 'Line 1 has more behind a COPY'],
  ['COPY (SELECT 1 FROM stdin) TO STDOUT;\n\\! touch\n\\.\n', 'Line 1 has a COPY other'],
  ['COPY "x FROM stdin" TO STDOUT;\n\\! touch\n', 'Line 1 has a COPY other'],
  ['COPY t TO /* FROM STDIN */ STDOUT;\n\\! touch\n', 'Line 1 has a COPY other'],
  ["COPY t FROM STDOUT;\n'\n\\.\n\\! touch\n'", 'Line 1 has a COPY other'],
  ['COPY(SELECT 1)TO STDOUT;\n\\! touch\n', 'Line 1 has a COPY other'],
  ["COPY t FROM PROGRAM 'touch';", 'Line 1 has a COPY other'],
  ['COPY t FROM stdin;\n1\n\\.\n\\! touch\n', 'Line 4 has \\!'],
  ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC COPY t FROM STDIN;\n\\! touch\n', 'Line 2 has \\!'],
  ["SELECT 1E'\\' \\! touch", 'behind a number'],
  ["SELECT $1E'\\' \\! touch", 'behind a number'],
  ["SELECT E'a'\n'\\' \\! touch", 'goes on in another'],
  ["SELECT $ 'a'", 'a $ that begins no text'],
  ["SELECT 'a\0b'", 'a byte 0'],
])('a script that could start something is refused: %j', async (script, why) => {
  for (const size of [1, 7, 1000]) await expect(passed(script, { ...open, size })).rejects.toThrow(why);
  await expect(passed(script)).rejects.toBeInstanceOf(DumpFault);
});

test('a text that ends otherwise under another setting is refused where psql does not refuse commands itself', async () => {
  const script = "SELECT '\\', '\\! x';\n";
  await expect(passed(script)).rejects.toThrow('newer image');
  expect(await passed(script, { isRestricted: true, size: 1000 })).toBe(script);
});

test('a statement of any length is passed on', async () => {
  const long = `INSERT INTO t VALUES ('${'x'.repeat(300_000)}');\nSELECT 1;\n`;
  expect(await passed(long, { ...open, size: 1000 })).toBe(long);
});
