import { z } from 'zod';
import { faultOfValue } from '../../store/kinds/variables.ts';
import { parseMemory } from '../../store/kinds/quantity.ts';
import { TemplateVariableType } from '../../store/kinds/template.ts';
import { cronFault } from '../../time/cron.ts';
import type { Random } from '../ground/random.ts';
import { HostName } from '../resources/domain.ts';
import { isVariableName } from './expression.ts';
import type { PatternTime } from './pattern-time.ts';

const Generator = z.strictObject({
  length: z.int().min(1).max(512).optional(),
  alphabet: z.enum(['hex', 'base64', 'alphanumeric', 'url_safe']).optional(),
  prefix: z.string().max(64).optional(),
});
type Generator = z.infer<typeof Generator>;

/** What a template says of one of its variables. */
export const Variable = z.strictObject({
  name: z.string().refine(isVariableName, 'Must be a name of up to 64 letters, digits and _'),
  type: TemplateVariableType.default('string'),
  display_name: z.string().min(1).max(100).optional(),
  description: z.string().max(1000).optional(),
  required: z.boolean().optional(),
  default: z.string().max(8192).optional(),
  /** A regular expression that the whole value must match. */
  pattern: z.string().max(500).refine(isPattern, 'Must be a regular expression').optional(),
  /** Of an enum. */
  options: z.array(z.string().max(200)).min(1).max(100).optional(),
  /** Of a number. */
  min: z.number().optional(),
  max: z.number().optional(),
  /** Where no value is given, one is made by the system's generator of random bytes. */
  generate: z.union([z.boolean(), Generator]).optional(),
});
export type Variable = z.infer<typeof Variable>;

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}

/** Whether a value of the variable is a secret. */
export function isSecret({ type }: Pick<Variable, 'type'>): boolean {
  return type === 'password' || type === 'secret';
}

/** Whether there must be a value of the one who instantiates the template. */
export function isNeeded({ required, default: usual, generate }: Variable): boolean {
  return required !== false && usual === undefined && (generate === undefined || generate === false);
}

/** What is wrong with the declaration of a variable itself, in words that follow its path. */
export function variableFault(it: Variable, patterns: PatternTime): string | undefined {
  if ((it.type === 'enum') !== (it.options !== undefined)) return 'has options if its type is enum, and only then';
  if (it.type !== 'number' && (it.min ?? it.max) !== undefined) return 'has min and max only if its type is number';
  if (it.generate !== undefined && it.generate !== false && it.default !== undefined)
    return 'has a default or a generator, not both';
  const fault = it.default === undefined ? undefined : valueFault(it, it.default, { now: new Date(0), patterns });
  return fault === undefined ? undefined : `has a default that ${fault}`;
}

/** The rule that a value breaks, in words that follow the name of the variable; `undefined`: none. */
export function valueFault(
  it: Variable,
  value: string,
  { now, patterns }: { now: Date; patterns: PatternTime },
): string | undefined {
  const fault = faultOfValue(value) ?? typeFault(it, value, now);
  if (fault !== undefined || it.pattern === undefined) return fault;
  switch (patterns.matches(it.pattern, value)) {
    case 'yes':
      return undefined;
    case 'no':
      return `must match ${it.pattern}`;
    case 'too slow':
      return `cannot be judged, as patterns of the template take too long: simplify ${it.pattern}`;
  }
}

function typeFault(it: Variable, value: string, now: Date): string | undefined {
  switch (it.type) {
    case 'string':
      return undefined;
    case 'number':
      return numberFault(value, it.min, it.max);
    case 'enum':
      return it.options?.includes(value) === true ? undefined : `must be one of ${(it.options ?? []).join(', ')}`;
    case 'secret':
    case 'password':
    case 'boolean':
    case 'domain':
    case 'email':
    case 'port':
    case 'size':
    case 'cron': {
      const { is, rule } = forms[it.type];
      return is(value, now) ? undefined : rule;
    }
  }
}

/** What values of the other types look like. */
const forms = {
  secret: { is: (value) => value !== '', rule: 'must not be empty' },
  password: {
    is: (value) => /^[\x20-\x7e]{8,128}$/.test(value),
    rule: 'must be 8 to 128 printable characters of ASCII',
  },
  boolean: { is: (value) => value === 'true' || value === 'false', rule: 'must be true or false' },
  domain: { is: (value) => HostName.safeParse(value).success, rule: 'must be a host name such as www.example.org' },
  email: { is: (value) => z.email().safeParse(value).success, rule: 'must be an e-mail address' },
  port: { is: isPort, rule: 'must be a port from 1 to 65535' },
  size: { is: (value) => 'bytes' in parseMemory(value), rule: 'must be a size of at least 6m, such as 512m or 1.5g' },
  cron: {
    is: (value, now) => cronFault({ expression: value, timezone: 'UTC' }, now) === undefined,
    rule: 'must be five fields of times, such as "30 3 * * *"',
  },
} as const satisfies Partial<Record<Variable['type'], { is: (value: string, now: Date) => boolean; rule: string }>>;

function isPort(value: string): boolean {
  return /^\d{1,5}$/.test(value) && Number(value) >= 1 && Number(value) <= 65_535;
}

function numberFault(value: string, min = -Infinity, max = Infinity): string | undefined {
  if (!/^-?\d{1,15}(\.\d{1,15})?$/.test(value)) return 'must be a number';
  const number = Number(value);
  return number < min || number > max ? `must be from ${min} to ${max}` : undefined;
}

const alphabets = {
  hex: '0123456789abcdef',
  alphanumeric: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
  url_safe: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_',
} as const;

/**
 * A value that nobody can guess. `length` counts characters without the prefix; with the alphabet `base64`, the bytes that
 * are encoded.
 */
export function generated({ length = 32, alphabet = 'url_safe', prefix = '' }: Generator, random: Random): string {
  if (alphabet === 'base64') return prefix + random.bytes(length).toString('base64');
  return prefix + drawn(alphabets[alphabet], length, random);
}

/** Each character is as likely as each other one: bytes above the last multiple of their number are left out. */
function drawn(letters: string, length: number, random: Random): string {
  const most = 256 - (256 % letters.length);
  let text = '';
  while (text.length < length)
    for (const byte of random.bytes(length))
      if (byte < most && text.length < length) text += letters[byte % letters.length];
  return text;
}

/** The generator of a variable; `undefined`: it has none. */
export function generatorOf({ generate }: Variable): Generator | undefined {
  if (generate === undefined || generate === false) return undefined;
  return generate === true ? {} : generate;
}

/** A value of the type, for a look at a template whose variables have none yet. */
export function sampleOf(it: Variable): string {
  if (it.default !== undefined) return it.default;
  switch (it.type) {
    case 'string':
    case 'secret':
    case 'password':
      return 'example-value';
    case 'number':
      return String(it.min ?? it.max ?? 1);
    case 'boolean':
      return 'true';
    case 'enum':
      return it.options?.[0] ?? '';
    case 'domain':
      return 'www.example.org';
    case 'email':
      return 'someone@example.org';
    case 'port':
      return '8080';
    case 'size':
      return '512m';
    case 'cron':
      return '30 3 * * *';
  }
}
