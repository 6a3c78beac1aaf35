/** A schema of the served document, as far as forms read it. */
export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
}

export type Definitions = Readonly<Record<string, JsonSchema>>;

export type FieldKind =
  | 'text'
  | 'long-text'
  | 'secret'
  | 'number'
  | 'switch'
  | 'choice'
  | 'list'
  | 'map'
  | 'group'
  | 'items'
  | 'json';

/** A field of a form, with what its schema says of it. */
export interface FieldSpec {
  readonly name: string;
  readonly label: string;
  readonly help: string;
  readonly kind: FieldKind;
  readonly isRequired: boolean;
  readonly isNullable: boolean;
  readonly options: readonly string[];
  readonly placeholder: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly isWhole: boolean;
  /** Of a group: its fields; of a list of objects: the fields of one. */
  readonly fields: readonly FieldSpec[];
}

/** The most that a form nests; what is deeper is edited as JSON. */
const mostDepth = 4;
/** A text that may be longer is edited over several lines. */
const longTextFrom = 2000;
const secretNames = /(^|_)(password|secret|token|private_key|passphrase|secret_key)$/;
const readOnly = 'Read-only';

/** The fields of an object's schema, in its order; those that only the server sets are left out. */
export function fieldsOf(schema: JsonSchema, definitions: Definitions, depth = 0): FieldSpec[] {
  const { properties = {}, required = [] } = resolved(schema, definitions);
  return Object.entries(properties)
    .filter(([, one]) => one.description?.startsWith(readOnly) !== true)
    .map(([name, one]) => fieldOf(name, one, required.includes(name), definitions, depth));
}

/** Follows a reference. @throws if the document lacks what it refers to */
function resolved(schema: JsonSchema, definitions: Definitions): JsonSchema {
  if (schema.$ref === undefined) return schema;
  const name = schema.$ref.replace('#/components/schemas/', '');
  const found = definitions[name];
  if (found === undefined) throw new Error(`The document has no schema ${name}`);
  return {
    ...resolved(found, definitions),
    ...(schema.description !== undefined && { description: schema.description }),
  };
}

/** A schema without its alternative `null`. */
function withoutNull(schema: JsonSchema, definitions: Definitions): { schema: JsonSchema; isNullable: boolean } {
  const { anyOf, ...rest } = resolved(schema, definitions);
  if (anyOf !== undefined) {
    const others = anyOf.filter((one) => one.type !== 'null');
    const isNullable = others.length < anyOf.length;
    const [only] = others;
    if (others.length !== 1 || only === undefined) return { schema: { ...rest, anyOf: others }, isNullable };
    const inner = withoutNull(only, definitions);
    return { schema: { ...inner.schema, ...rest }, isNullable: isNullable || inner.isNullable };
  }
  if (typeof rest.type === 'object') {
    const types = rest.type.filter((one) => one !== 'null');
    const [only] = types;
    if (types.length === 1 && only !== undefined)
      return { schema: { ...rest, type: only }, isNullable: types.length < rest.type.length };
  }
  return { schema: rest, isNullable: false };
}

function fieldOf(
  name: string,
  given: JsonSchema,
  isRequired: boolean,
  definitions: Definitions,
  depth: number,
): FieldSpec {
  const { schema, isNullable } = withoutNull(given, definitions);
  const kind = kindOf(name, schema, definitions, depth);
  const { pattern, minLength, maxLength, minimum, maximum } = schema;
  const inner = kind === 'group' ? schema : kind === 'items' ? schema.items : undefined;
  return {
    name,
    label: schema.title ?? labelOf(name),
    help: sentence(schema.description ?? ''),
    kind,
    isRequired,
    isNullable,
    options: (schema.enum ?? []).map(String),
    placeholder: placeholderOf(schema.default),
    ...(pattern !== undefined && { pattern }),
    ...(minLength !== undefined && { minLength }),
    ...(maxLength !== undefined && { maxLength }),
    ...(minimum !== undefined && { minimum }),
    ...(maximum !== undefined && { maximum }),
    isWhole: schema.type === 'integer',
    fields: inner === undefined ? [] : fieldsOf(inner, definitions, depth + 1),
  };
}

function kindOf(name: string, schema: JsonSchema, definitions: Definitions, depth: number): FieldKind {
  if (schema.enum !== undefined) return 'choice';
  switch (schema.type) {
    case 'boolean':
      return 'switch';
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
      if (secretNames.test(name)) return 'secret';
      return schema.maxLength !== undefined && schema.maxLength >= longTextFrom ? 'long-text' : 'text';
    case 'array':
      return kindOfList(schema, definitions, depth);
    case 'object':
      if (schema.properties !== undefined) return depth < mostDepth ? 'group' : 'json';
      return typeof schema.additionalProperties === 'object' && schema.additionalProperties.type === 'string'
        ? 'map'
        : 'json';
    default:
      return 'json';
  }
}

function kindOfList({ items }: JsonSchema, definitions: Definitions, depth: number): FieldKind {
  if (items === undefined) return 'json';
  const one = resolved(items, definitions);
  if (one.type === 'object' && one.properties !== undefined) return depth < mostDepth ? 'items' : 'json';
  const isText = one.type === 'string' || one.anyOf?.every(({ type }) => type === 'string') === true;
  return isText || one.type === 'integer' ? 'list' : 'json';
}

const shortWords: Readonly<Record<string, string>> = {
  id: 'id',
  ip: 'IP',
  url: 'URL',
  ssh: 'SSH',
  ca: 'CA',
  cpu: 'CPU',
  acme: 'ACME',
  http: 'HTTP',
  https: 'HTTPS',
  tls: 'TLS',
  pids: 'PIDs',
  dns: 'DNS',
};

/** The name of a field in words: `log_retention_days` and `sshKeyId` are `Log retention days` and `SSH key`. */
export function labelOf(name: string): string {
  const words = name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split('_')
    .filter((word) => word !== '');
  if (words.length > 1 && words.at(-1) === 'id') words.pop();
  const text = words.map((word) => shortWords[word] ?? word).join(' ');
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

function placeholderOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A description as a sentence for people, to whom `null` is a field that is empty. */
function sentence(text: string): string {
  const told = text.replaceAll(/^null: /g, 'Empty: ').replaceAll(/\bnull: /g, 'empty: ');
  return told === '' || /[.!?…]$/.test(told) ? told : `${told}.`;
}

/** What is wrong with a value of a field; `undefined` if nothing is that the schema knows of. */
export function faultOf(field: FieldSpec, value: unknown): string | undefined {
  if (value === undefined || value === null || value === '')
    return field.isRequired ? `${field.label} is needed` : undefined;
  if (typeof value === 'string') return faultOfText(field, value);
  if (typeof value === 'number') return faultOfNumber(field, value);
  return undefined;
}

function faultOfText({ label, kind, pattern, minLength, maxLength }: FieldSpec, value: string): string | undefined {
  if (kind === 'number') return `${label} is a number`;
  if (minLength !== undefined && value.length < minLength) return `${label} has at least ${minLength} characters`;
  if (maxLength !== undefined && value.length > maxLength) return `${label} has at most ${maxLength} characters`;
  if (pattern !== undefined && !matches(pattern, value)) return `${label} cannot be “${shortened(value)}”`;
  return undefined;
}

function faultOfNumber({ label, isWhole, minimum, maximum }: FieldSpec, value: number): string | undefined {
  if (!Number.isFinite(value)) return `${label} is a number`;
  if (isWhole && !Number.isInteger(value)) return `${label} is a whole number`;
  if (minimum !== undefined && value < minimum) return `${label} is at least ${minimum}`;
  if (maximum !== undefined && value > maximum) return `${label} is at most ${maximum}`;
  return undefined;
}

/** Patterns of JSON Schema are read with Unicode; one that this browser cannot read is left to the server. */
function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(value);
  } catch {
    return true;
  }
}

function shortened(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
