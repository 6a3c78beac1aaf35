import { z } from 'zod';

/** One fault in a value that a client wrote. */
export interface Fault {
  /** Names of fields and indexes of lists, from the outside in. */
  path: readonly (string | number)[];
  /** Stable word of the rule, for programs. */
  reason: string;
  /** The rule, in words that follow the name of the field. */
  rule: string;
  /** A sentence that names the field and its rule, without a full stop. */
  message: string;
}

/** A path as one text; a name that is not plain stands in brackets: `env["spring.datasource.url"]`. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path.map(String).reduce(pathBelow, '');
}

/** The path, as text, of what is below another one by that name. */
export function pathBelow(path: string, name: string): string {
  if (!/^[\w$-]+$/.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Parses a value that a client wrote. `whole` names the value as a whole, such as `The body`. A schema's own message
 * wins; it begins with `Must` or is a sentence.
 */
export function parseWritten<S extends z.ZodType>(
  schema: S,
  value: unknown,
  whole: string,
): { data: z.output<S> } | { faults: readonly Fault[] } {
  const parsed = schema.safeParse(value, { error: (issue) => ruleOf(schema, issue) });
  if (parsed.success) return { data: parsed.data };
  return { faults: parsed.error.issues.flatMap((issue) => faultsOf(issue, whole)) };
}

function faultsOf(issue: z.core.$ZodIssue, whole: string): Fault[] {
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({
      path: [...path, key],
      reason: 'unknown_field',
      rule: 'is not known',
      message: `Unknown field ${fieldPath([...path, key])}`,
    }));
  const subject = path.length === 0 ? whole : fieldPath(path);
  return [{ path, reason: reasonOf(issue), rule: lowered(issue.message), message: sentence(subject, issue.message) }];
}

/** A rule follows the name of its subject; a sentence stands alone. */
function sentence(subject: string, rule: string): string {
  return isRule(rule) ? `${subject} ${lowered(rule)}` : rule;
}

function isRule(text: string): boolean {
  return /^(must|is|has)\b/i.test(text);
}

function lowered(text: string): string {
  return isRule(text) ? `${text.charAt(0).toLowerCase()}${text.slice(1)}` : text;
}

function reasonOf(issue: z.core.$ZodIssue): string {
  return issue.message === required ? 'required' : issue.code;
}

const required = 'is required';

function ruleOf(schema: z.ZodType, issue: z.core.$ZodRawIssue): string {
  if (issue.input === undefined && issue.code !== 'custom') return required;
  switch (issue.code) {
    case 'invalid_key':
      return keyRule(schema, issue.issues, issue.path ?? []);
    case 'invalid_union':
      return unionRule(schema, issue.errors.flat(), issue.path ?? []);
    case 'invalid_type':
      if (issue.input === null && (issue.path ?? []).length > 0) return 'must not be null';
      return describe(leafOf(schema, issue.path ?? []), issue.expected === 'int');
    default:
      return describe(leafOf(schema, issue.path ?? []));
  }
}

/** The rule that a key of a map breaks: that of its schema, else what the schema of the keys describes. */
function keyRule(schema: z.ZodType, issues: readonly z.core.$ZodIssue[], path: readonly PropertyKey[]): string {
  const own = issues.map((issue) => ownRule(schema, issue)).find((rule) => rule !== undefined);
  if (own !== undefined) return own;
  const keys = leafOf(schema, path.slice(0, -1))['propertyNames'];
  const isDescribed = isJson(keys) && issues.some(({ code }) => code !== 'invalid_format');
  return isDescribed ? `has a name that is not allowed: it ${describe(keys)}` : 'has a name that is not allowed';
}

/** The rule of the first alternative whose type the value has. */
function unionRule(schema: z.ZodType, issues: readonly z.core.$ZodIssue[], path: readonly PropertyKey[]): string {
  const inner = issues.find(({ code }) => code !== 'invalid_type');
  if (inner === undefined) return describe(leafOf(schema, path));
  return ownRule(schema, inner) ?? describe(leafOf(schema, [...path, ...inner.path]));
}

/**
 * The message of a schema within a key or an alternative; `undefined`: it has none, and was described. The path of its
 * issue begins there and not at the top, so that the description is of something else.
 */
function ownRule(schema: z.ZodType, { message, path }: z.core.$ZodIssue): string | undefined {
  return message === describe(leafOf(schema, path)) ? undefined : message;
}

const documents = new WeakMap<z.ZodType, Json>();

/** JSON schema of one field in the form that a client writes, before any transformation. */
function leafOf(schema: z.ZodType, path: readonly PropertyKey[]): Json {
  let root = documents.get(schema);
  if (root === undefined) {
    root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    documents.set(schema, root);
  }
  let at: Json = root;
  for (const part of path) at = below(root, at, part) ?? {};
  return resolved(root, at);
}

function below(root: Json, at: Json, part: PropertyKey): Json | undefined {
  const schema = resolved(root, at);
  const properties = schema['properties'];
  if (isJson(properties) && Object.hasOwn(properties, part)) {
    const found = properties[String(part)];
    if (isJson(found)) return found;
  }
  if (isJson(schema['additionalProperties'])) return schema['additionalProperties'];
  if (isJson(schema['items'])) return schema['items'];
  for (const way of ways(schema)) {
    const found = below(root, way, part);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Follows a reference; of the alternatives `null` and one other it takes the other one. */
function resolved(root: Json, at: Json): Json {
  const name = typeof at['$ref'] === 'string' ? /^#\/\$defs\/(.+)$/.exec(at['$ref'])?.[1] : undefined;
  const definitions = root['$defs'];
  if (name !== undefined && isJson(definitions) && isJson(definitions[name])) return resolved(root, definitions[name]);
  const [only, ...others] = ways(at).filter((way) => way['type'] !== 'null');
  return only !== undefined && others.length === 0 ? resolved(root, only) : at;
}

function ways(schema: Json): readonly Json[] {
  const all: unknown = schema['anyOf'] ?? schema['oneOf'] ?? schema['allOf'];
  return Array.isArray(all) ? all.filter(isJson) : [];
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const formats: Readonly<Record<string, string>> = {
  uuid: 'must be a UUID',
  email: 'must be an e-mail address',
  uri: 'must be an address such as https://example.org',
  'date-time': 'must be a time such as 2030-01-31T12:00:00Z',
};

/** Describes what a value must be, in words that follow its name. */
function describe(schema: Json, isWhole = false): string {
  const { enum: values, const: only, format } = schema;
  const type: unknown = Array.isArray(schema['type']) ? schema['type'].find((one) => one !== 'null') : schema['type'];
  if (Array.isArray(values)) return `must be one of ${values.map(String).join(', ')}`;
  if (only !== undefined) return `must be ${JSON.stringify(only)}`;
  if (typeof format === 'string' && formats[format] !== undefined) return formats[format];
  switch (type) {
    case 'integer':
    case 'number':
      return `must be a ${isWhole ? 'whole ' : ''}number${range(schema['minimum'], schema['maximum'])}`;
    case 'string':
      return `must be ${length(schema['minLength'], schema['maxLength'])}`;
    case 'boolean':
      return 'must be true or false';
    case 'array':
      return `must be a list${counted(schema['minItems'], schema['maxItems'])}`;
    case 'object':
      return 'must be an object';
    default:
      return describedWays(schema) ?? 'is not valid';
  }
}

/** What one of several alternatives must be; `undefined`: one of them cannot be described. */
function describedWays(schema: Json): string | undefined {
  const rules = ways(schema)
    .filter((way) => way['type'] !== 'null')
    .map((way) => /^must be (?<what>.*)$/.exec(describe(way))?.groups?.['what']);
  return rules.length === 0 || rules.includes(undefined) ? undefined : `must be ${rules.join(' or ')}`;
}

function range(from: unknown, to: unknown): string {
  const least = isBound(from) ? from : undefined;
  const most = isBound(to) ? to : undefined;
  if (least !== undefined && most !== undefined) return ` from ${least} to ${most}`;
  if (least !== undefined) return ` of at least ${least}`;
  return most === undefined ? '' : ` of at most ${most}`;
}

/** The bounds of every safe integer are no bounds of a field. */
function isBound(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) !== Number.MAX_SAFE_INTEGER;
}

function length(from: unknown, to: unknown): string {
  if (typeof to !== 'number') return typeof from === 'number' ? 'text that is not empty' : 'text';
  return typeof from === 'number' && from > 0
    ? `text of ${from} to ${to} characters`
    : `text of at most ${to} characters`;
}

function counted(from: unknown, to: unknown): string {
  if (typeof to === 'number') return ` of ${typeof from === 'number' ? `${from} to` : 'at most'} ${to} elements`;
  return typeof from === 'number' ? ` of at least ${from} elements` : '';
}
