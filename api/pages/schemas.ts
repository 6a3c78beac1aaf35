import { z } from 'zod';
import { declaredSchemas, declaredWords } from '../declared/objects.ts';

/** The JSON Schemas of what can be declared, by file below `/schemas/`: one for each kind, and one of all for editors. */
export function declaredJsonSchemas(): ReadonlyMap<string, string> {
  const each = declaredWords.map((word) => [word, z.toJSONSchema(declaredSchemas[word], { io: 'input' })] as const);
  const all = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'What setpoint apply takes',
    // references are read from the root of a document
    $defs: Object.assign({}, ...each.map(([, { $defs }]) => $defs)) as object,
    anyOf: each.map(([, schema]) => ({ ...schema, $defs: undefined })),
  };
  return new Map([
    ['setpoint.json', JSON.stringify(all)],
    ...each.map(([word, schema]): [string, string] => [`${word.toLowerCase()}.json`, JSON.stringify(schema)]),
  ]);
}
