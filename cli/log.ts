import { pino } from 'pino';
import type { DestinationStream, Level, Logger } from 'pino';

/** Of values beside the message: what lies deeper is not shown. */
const maxDepth = 5;
/** Of lists; what comes after is counted. */
const maxItems = 100;
const hidden = '[redacted]';

/** Fields that hold secrets, wherever they are; compared without case, dashes and underscores. */
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

/** Of errors only these are shown beside name, message, stack and causes: libraries attach whole requests to them. */
const errorFields = ['code', 'errno', 'syscall', 'status', 'signal', 'exitCode'] as const;

/** Secrets that are known by their form: service keys, join tokens, session tokens, and what a URL carries before its host. */
const forms: readonly [RegExp, string][] = [
  [/\bsp_[0-9A-Za-z]{46}/g, 'sp_***'],
  [/\bsj_[0-9a-f]{32}_[\w-]{43}/g, 'sj_***'],
  [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+/g, '***'],
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"'\\]{1,300}@/gi, '$1***@'],
];

/**
 * The log of a program: lines of JSON on standard output unless told otherwise.
 *
 * No secret reaches a line by a slip of whoever writes it: fields that hold secrets are hidden by their names at any depth,
 * errors are reduced to what tells what went wrong, bytes to their number, and what looks like one of our secrets is
 * hidden in every text, the message included.
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
      // the formatter has done it, and the usual serializer would start from the error again
      serializers: { err: (error: unknown) => error },
      // what a child carries along does not pass the formatter
      redact: {
        paths: ['authorization', 'env', 'password', 'secret', 'token'],
        censor: (value) => (canBeSecret(value) ? hidden : value),
      },
    },
    { write: (line) => out.write(withoutForms(line)) },
  );
}

/** The text without what looks like a secret of ours. */
export function withoutForms(text: string): string {
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

/** A number or a flag is none: how many there are, whether one is set. */
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
