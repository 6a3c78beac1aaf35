import { pino } from 'pino';
import type { DestinationStream, Level, Logger } from 'pino';

/** Levels of nested values that are shown. */
const maxDepth = 5;
/** Items of a list that are shown; the others are counted. */
const maxItems = 100;
const hidden = '[redacted]';

/** Names of fields with secrets, at any depth; they are compared without case, dashes and underscores. */
const secretFields = new Set([
  'apikey',
  'authorization',
  'buildargs',
  'cookie',
  'credentials',
  'env',
  'jointoken',
  'passphrase',
  'password',
  'currentpassword',
  'newpassword',
  'passwordhash',
  'privatekey',
  'recoverycodes',
  'secret',
  'setcookie',
  'token',
  'totp',
  'xservicekey',
]);

/**
 * Fields of an error that are logged besides name, message, stack and causes: libraries attach whole requests to
 * errors.
 */
const errorFields = ['code', 'errno', 'syscall', 'status', 'signal', 'exitCode'] as const;

/** Secrets with a known form: service keys, join tokens, session tokens, and credentials in a URL. */
const forms: readonly [RegExp, string][] = [
  [/\bsp_[0-9A-Za-z]{46}/g, 'sp_***'],
  [/\bsj_[0-9a-f]{32}_[\w-]{43}/g, 'sj_***'],
  [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+/g, '***'],
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"'\\]{1,300}@/gi, '$1***@'],
];

/**
 * The log of a program: lines of JSON, on standard output by default.
 *
 * It keeps secrets out of the lines even if the caller passes them by mistake: fields with secrets are hidden by name
 * at any depth, errors are reduced to what is needed to find the cause, bytes to their number, and texts that look like
 * one of our secrets are hidden everywhere, the message included.
 */
export function createLog(
  options: { level: Level | 'silent' | (string & {}) },
  destination?: DestinationStream,
): Logger {
  const out = destination ?? pino.destination(1);
  return pino(
    {
      level: options.level,
      formatters: { log: (fields) => shownFields(fields, 0) },
      // the formatter did this already, and the default serializer would serialise the whole error again
      serializers: { err: (error: unknown) => error },
      // the formatter does not see the bindings of a child logger
      redact: {
        paths: ['authorization', 'env', 'password', 'secret', 'token'],
        censor: (value) => (canBeSecret(value) ? hidden : value),
      },
    },
    { write: (line) => out.write(withoutForms(line)) },
  );
}

/** The text without anything that looks like one of our secrets. */
function withoutForms(text: string): string {
  return forms.reduce((left, [form, instead]) => left.replace(form, instead), text);
}

function shownFields(fields: object, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, isSecret(name, value) ? hidden : shown(value, depth)]),
  );
}

function isSecret(name: string, value: unknown): boolean {
  return canBeSecret(value) && secretFields.has(name.toLowerCase().replaceAll(/[-_]/g, ''));
}

/** A number or a flag is not a secret: it is a count, or whether something is set. */
function canBeSecret(value: unknown): boolean {
  return value !== undefined && value !== null && typeof value !== 'number' && typeof value !== 'boolean';
}

function shown(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Error) return shownError(value, depth);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Date) return value;
  if (depth >= maxDepth) return '[deeper]';
  if (value instanceof Map || value instanceof Set) return `[${value.size} items]`;
  if (!Array.isArray(value)) return shownFields(value, depth + 1);
  const items = value.slice(0, maxItems).map((item) => shown(item, depth + 1));
  return value.length > maxItems ? [...items, `[${value.length - maxItems} more]`] : items;
}

function shownError(error: Error, depth: number): Record<string, unknown> {
  const fields = errorFields.flatMap((name) => {
    const value: unknown = Reflect.get(error, name);
    return typeof value === 'string' || typeof value === 'number' ? [[name, value] as const] : [];
  });
  return {
    type: error.name,
    message: error.message,
    stack: error.stack,
    ...Object.fromEntries(fields),
    ...(error.cause !== undefined && { cause: depth >= maxDepth ? '[deeper]' : shown(error.cause, depth + 1) }),
    ...(error instanceof AggregateError && { errors: shown(error.errors, depth + 1) }),
  };
}
