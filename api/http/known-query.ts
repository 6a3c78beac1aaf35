import { z } from 'zod';
import { parseInput } from './parse-input.ts';

const NoQuery = z.strictObject({});
/** The strict form of each schema. */
const strict = new WeakMap<z.ZodObject, z.ZodObject>();

/**
 * Parses the query of a request that only reads, by the schema of its endpoint or stream. A parameter that is not in it is
 * refused: an answer that it has no effect on would be taken for what was asked for.
 *
 * @throws ApiError BAD_REQUEST with every wrong parameter
 */
export function parseKnown(schema: z.ZodType | undefined, search: Readonly<Record<string, string>>): unknown {
  if (schema === undefined) {
    parseInput(NoQuery, search, 'query');
    return undefined;
  }
  return parseInput(schema instanceof z.ZodObject ? strictly(schema) : schema, search, 'query');
}

function strictly(schema: z.ZodObject): z.ZodObject {
  const known = strict.get(schema) ?? schema.strict();
  strict.set(schema, known);
  return known;
}
