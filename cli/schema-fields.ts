import { z } from 'zod';

/** The part of JSON Schema that schemas of the API use. */
export const JsonSchema = z.looseObject({
  type: z.union([z.string(), z.array(z.string())]).optional(),
  description: z.string().optional(),
  const: z.unknown().optional(),
  enum: z.array(z.unknown()).optional(),
  required: z.array(z.string()).optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  maxLength: z.number().optional(),
  get properties() {
    return z.record(z.string(), JsonSchema).optional();
  },
  get anyOf() {
    return z.array(JsonSchema).optional();
  },
  get items() {
    return JsonSchema.optional();
  },
  get additionalProperties() {
    return z.union([z.boolean(), JsonSchema]).optional();
  },
});
export type JsonSchema = z.infer<typeof JsonSchema>;

/** A document of JSON Schema with what its `$ref`s name in their places; one within itself takes anything. */
export function inlined(document: unknown): JsonSchema {
  const named = Definitions.safeParse(document).data?.$defs ?? {};
  const placed = (it: unknown, around: readonly string[]): unknown => {
    if (Array.isArray(it)) return it.map((one) => placed(one, around));
    if (typeof it !== 'object' || it === null) return it;
    const { $ref, ...rest } = it as { $ref?: unknown };
    const [, name] = typeof $ref === 'string' ? (/^#\/\$defs\/([^/]+)$/.exec($ref) ?? []) : [];
    const own = Object.fromEntries(Object.entries(rest).map(([key, one]) => [key, placed(one, around)]));
    if (name === undefined || around.includes(name)) return own;
    return { ...(placed(named[name], [...around, name]) as object), ...own };
  };
  return JsonSchema.parse(placed(document, []));
}

const Definitions = z.looseObject({ $defs: z.record(z.string(), z.unknown()).optional() });

/** A field of a declaration, in words. */
export interface Field {
  name: string;
  type: string;
  isRequired: boolean;
  description: string | undefined;
}

/** The fields of an object, of the items of a list of them, or of the values of a map of them; none for anything else. */
export function fieldsOf(schema: JsonSchema): Field[] {
  return formsOf(schema).flatMap(({ properties = {}, required = [] }) =>
    Object.entries(properties).map(([name, of]) => ({
      name,
      type: wordsOf(of),
      isRequired: required.includes(name),
      description: descriptionOf(of),
    })),
  );
}

/** The schema of a field below another one; `undefined`: it has no such field. */
export function below(schema: JsonSchema, name: string): JsonSchema | undefined {
  return formsOf(schema)
    .map(({ properties }) => properties?.[name])
    .find((it) => it !== undefined);
}

/** What a field is for: one that may also be null may say it of the rest. */
export function descriptionOf(schema: JsonSchema): string | undefined {
  return schema.description ?? schema.anyOf?.map(({ description }) => description).find((it) => it !== undefined);
}

/** Which values a field takes. */
export function wordsOf(schema: JsonSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return `one of ${schema.enum.map(String).join(', ')}`;
  if (schema.anyOf !== undefined) return either(schema.anyOf.map(wordsOf));
  return either([schema.type ?? 'anything'].flat().map((type) => wordsOfType(type, schema)));
}

/** Almost every field may be null, which takes it away. */
function either(words: readonly string[]): string {
  return [...new Set(words)].filter((word) => word !== 'null').join(' or ') || 'null';
}

function wordsOfType(type: string, { minimum, maximum, maxLength, items, additionalProperties }: JsonSchema): string {
  switch (type) {
    case 'string':
      return maxLength === undefined ? 'text' : `text of at most ${maxLength} characters`;
    case 'integer':
    case 'number': {
      const word = type === 'integer' ? 'whole number' : 'number';
      if (minimum === undefined || Math.abs(minimum) >= Number.MAX_SAFE_INTEGER) return word;
      const isOpen = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER;
      return isOpen ? `${word} from ${minimum}` : `${word} from ${minimum} to ${maximum}`;
    }
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'null';
    case 'array':
      return `list of ${items === undefined ? 'anything' : wordsOf(items)}`;
    case 'object':
      return typeof additionalProperties === 'object' ? `map of ${wordsOf(additionalProperties)}` : 'object';
    default:
      return type;
  }
}

/** The objects that a schema may be of: itself, its items, its values, and each of several forms. */
function formsOf(schema: JsonSchema): JsonSchema[] {
  const { anyOf = [], items, additionalProperties, properties } = schema;
  if (properties !== undefined) return [schema];
  const inner = [...anyOf, items, additionalProperties].filter((it) => typeof it === 'object');
  return inner.flatMap(formsOf);
}
