import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compose } from './compose-text.ts';

const folder = join(import.meta.dirname, 'ordinary');
const files = readdirSync(folder);

test('there are at least forty ordinary files', () => {
  expect(files.length).toBeGreaterThanOrEqual(40);
});

test.each(files)('%s is read without an error', (file) => {
  const text = readFileSync(join(folder, file), 'utf8');
  const { services, errors } = compose(text, { DB_PASSWORD: 'secret', DOMAIN: 'example.org' });
  expect(errors).toEqual([]);
  // each names its services in its first line
  expect(services.map(({ name }) => name)).toEqual(/^# (.*)/.exec(text)?.[1]?.split(', '));
});
