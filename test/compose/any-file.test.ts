import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { PlainComposedService } from '../../store/kinds/composed-service.ts';
import { compose } from './compose-text.ts';

const folder = join(import.meta.dirname, 'ordinary');
const ordinary = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'));

/** Reads any text: it comes to an end, and each finding is a sentence with a place. */
function check(text: string): void {
  const { services, errors, warnings } = compose(text);
  for (const it of [...errors, ...warnings]) {
    expect(it.message.startsWith(it.path === '' ? 'The compose file ' : it.path)).toBe(true);
    expect(it.line).toBeGreaterThan(0);
  }
  for (const it of services) expect(PlainComposedService.parse(it)).toEqual(it);
}

test('any text is read or refused', () => {
  fc.assert(fc.property(fc.string({ maxLength: 200 }), check));
});

test('any value of any key is read or refused', () => {
  const key = fc.constantFrom(
    ...'image build command entrypoint environment env_file ports expose volumes tmpfs configs secrets depends_on healthcheck restart deploy networks user working_dir stop_grace_period stop_signal read_only init cap_drop cap_add mem_limit cpus shm_size profiles security_opt labels <<'.split(
      ' ',
    ),
  );
  const words = fc.constantFrom(
    'a',
    'a:/a',
    '/',
    './a:/b:ro',
    '80:80',
    '1m',
    '$',
    '${A:-b}',
    'CMD',
    'true',
    '512m',
    '',
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 4 }, words, fc.integer(), fc.constant(null), fc.boolean(), tie('list'), tie('map')),
    list: fc.array(tie('value'), { maxLength: 4 }),
    map: fc.dictionary(
      fc.oneof(
        fc.string({ maxLength: 8 }),
        fc.constantFrom(
          'type',
          'source',
          'target',
          'condition',
          'test',
          'context',
          'aliases',
          'replicas',
          'resources',
          'limits',
        ),
      ),
      tie('value'),
      { maxKeys: 4 },
    ),
  }));
  const file = fc.record({
    services: fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.dictionary(key, value, { maxKeys: 6 })),
    volumes: value,
    networks: value,
    configs: value,
    secrets: value,
  });
  fc.assert(fc.property(file, (written) => check(stringify(written))));
});

test('an ordinary file of which a part is lost or repeated is read or refused', () => {
  const damage = fc.record({
    text: fc.constantFrom(...ordinary),
    from: fc.nat(2000),
    length: fc.nat(60),
    to: fc.nat(2000),
  });
  fc.assert(
    fc.property(damage, ({ text, from, length, to }) => {
      check(text.slice(0, from) + text.slice(from + length));
      check(text.slice(0, to) + text.slice(from, from + length) + text.slice(to));
    }),
  );
});
