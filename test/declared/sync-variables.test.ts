import { describe, expect, it } from 'vitest';
import { readFiles } from '../../api/declared/read.ts';
import { withValues } from '../../api/declared/sync-variables.ts';
import { ApiError } from '../../api/ground/api-error.ts';

const values = new Map([
  ['TAG', '1'],
  ['LONG', 'x'.repeat(32 * 1024)],
]);

describe('a text of a file', () => {
  it.each([
    ['web:${vars.TAG}', 'web:1'],
    ['${vars.TAG}${vars.TAG}', '11'],
    ['$${vars.TAG} ${vars.TAG}', '$${vars.TAG} 1'],
    ['${vars.${vars.TAG}', '${vars.1'],
    ['${databases.db.url}', '${databases.db.url}'],
  ])('%s becomes %s', (text, becomes) => {
    expect(withValues(text, values)).toEqual({ text: becomes, blank: [] });
  });

  it('is read once, however often it begins a name', () => {
    const text = '${vars.'.repeat(37_000);
    expect(withValues(text, values)).toEqual({ text, blank: [] });
    expect(withValues(`${text}TAG}`, values)).toEqual({ text: `${'${vars.'.repeat(36_999)}1`, blank: [] });
  });

  it.each([
    ['NONE', 'uses ${vars.NONE}, which the sync has no variable for: add it to its variables'],
    ['', 'uses ${vars.}, which the sync has no variable for: add it to its variables'],
    ['N'.repeat(65), `uses \${vars.${'N'.repeat(64)}…}, whose name is longer than 64 characters`],
  ])('has a fault where it names %s', (name, fault) => {
    expect(withValues(`a \${vars.${name}}`, values)).toEqual({ fault });
  });

  it('has at most 262144 characters with its values', () => {
    expect(withValues('${vars.LONG}'.repeat(8), values)).toMatchObject({ text: 'x'.repeat(256 * 1024) });
    expect(withValues('${vars.LONG}'.repeat(20_000), values)).toEqual({
      fault: 'is longer than 262144 characters with the variables of the sync',
    });
  });
});

it('the files of a commit have at most 2 MiB of values together, and the one that is too much is named', () => {
  const files = Array.from({ length: 12 }, (_, n) => ({
    path: `deploy/${n}.yaml`,
    content: `apiVersion: setpoint/v1\nkind: Volume\nmetadata: {name: v${n}}\nspec: {note: "\${vars.NOTE}"}`,
  }));
  const note = 'y'.repeat(200 * 1024);
  let notes = 0;
  const read = () =>
    readFiles(files, (text) => {
      if (!text.startsWith('${')) return { text, blank: [] };
      notes += 1;
      return { text: note, blank: [] };
    });
  expect(faultsOf(read)).toContain(
    'deploy/10.yaml, line 1, column 1: The commit is too long here: its values have more than 2097152 characters, variables included',
  );
  // what comes after it is not read
  expect(notes).toBe(11);
});

function faultsOf(read: () => unknown): string[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ApiError) return error.details.map(({ message }) => message);
    throw error;
  }
}
