import { expect, it } from 'vitest';
import { z } from 'zod';
import { DatabaseCreate } from '../../api/resources/database.ts';
import { engines } from '../../databases/engines.ts';
import { parametersIn, versionsIn } from '../../web/pages/database/engine-words.ts';
import { fieldsOf } from '../../web/parts/schema-fields.ts';
import type { JsonSchema } from '../../web/parts/schema-fields.ts';

const { properties = {} } = z.toJSONSchema(DatabaseCreate, { io: 'input', unrepresentable: 'any' });
/** What a form has beside a field, which is made of the schema. */
const helpOf = (name: string): string => {
  const schema: JsonSchema = JSON.parse(JSON.stringify(properties[name]));
  return fieldsOf({ properties: { [name]: schema } }, {})[0]?.help ?? '';
};

it('the words of the served schema have the versions of each engine, the usual one first', () => {
  const found = versionsIn(helpOf('version'));
  expect(Object.fromEntries(found)).toEqual(
    Object.fromEntries(Object.values(engines).map(({ type, versions }) => [type, versions])),
  );
});

it('they have the parameters of each engine that takes any', () => {
  const found = parametersIn(helpOf('parameters'));
  expect(Object.fromEntries(found)).toEqual(
    Object.fromEntries(
      Object.values(engines).flatMap(({ type, settings }) =>
        settings === undefined ? [] : [[type, Object.keys(settings.known)]],
      ),
    ),
  );
});

it('other words name none, so that a form asks for text', () => {
  expect(versionsIn('Whatever is there').size).toBe(0);
  expect(parametersIn('Settings of its engine.').size).toBe(0);
});
