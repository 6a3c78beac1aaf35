import { expect, it } from 'vitest';
import { z } from 'zod';
import { DatabaseCreate } from '../../api/resources/database.ts';
import { engines } from '../../databases/engines.ts';
import { parametersIn, versionsIn } from '../../web/pages/database/engine-words.ts';

const descriptions = z.record(z.string(), z.looseObject({ description: z.string().optional() }));
const fields = descriptions.parse(z.toJSONSchema(DatabaseCreate, { io: 'input', unrepresentable: 'any' }).properties);
const described = (name: string): string => fields[name]?.description ?? '';

it('the words of the served schema have the versions of each engine, the usual one first', () => {
  const found = versionsIn(described('version'));
  expect(Object.fromEntries(found)).toEqual(
    Object.fromEntries(Object.values(engines).map(({ type, versions }) => [type, versions])),
  );
});

it('they have the parameters of each engine that takes any', () => {
  const found = parametersIn(described('parameters'));
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
