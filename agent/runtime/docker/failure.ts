import type { FailureCode } from '../../../agent-protocol/assignment.ts';
import { RuntimeFailure } from '../runtime.ts';
import { EngineError } from './transport.ts';

interface Rule {
  text: RegExp;
  code: FailureCode;
  retryable: boolean;
}

/** What the engine's texts mean, first match wins. They are the same from engine 20.10 to 28. */
const rules: readonly Rule[] = [
  { text: /no space left on device/i, code: 'no_space', retryable: true },
  { text: /container name .* is already in use/i, code: 'name_taken', retryable: true },
  { text: /no such image/i, code: 'image_not_found', retryable: true },
  { text: /invalid reference format|repository name must be/i, code: 'image_not_found', retryable: false },
  {
    text: /manifest unknown|manifest for .* not found|repository does not exist|no matching manifest|name unknown/i,
    code: 'image_not_found',
    retryable: false,
  },
  { text: /unauthorized|access .*denied|no basic auth/i, code: 'image_pull_failed', retryable: false },
  {
    text: /executable file not found|no such file or directory|permission denied|exec format error|is a directory|no command specified/i,
    code: 'create_failed',
    retryable: false,
  },
];

/** What applies where no rule matches, and which codes make sense for the call. */
export interface Fallback {
  code: FailureCode;
  /** "Cannot start the container"; the engine's reason follows after a colon. */
  attempted: string;
  /** Rules for other codes than these and the fallback's are not consulted. */
  codes: readonly FailureCode[];
}

/** Throws `error` in the product's words; what is no answer of the engine is thrown as it is. */
export function fail(error: unknown, fallback: Fallback): never {
  if (!(error instanceof EngineError)) throw error;
  throw failureOf(error.reason, error.status >= 500, fallback, { cause: error });
}

/** The same for a failure that came inside of a stream. */
export function failureOf(
  message: string,
  retryable: boolean,
  fallback: Fallback,
  options: ErrorOptions = {},
): RuntimeFailure {
  const rule = rules.find(
    ({ text, code }) => (code === fallback.code || fallback.codes.includes(code)) && text.test(message),
  );
  return new RuntimeFailure(rule?.code ?? fallback.code, `${fallback.attempted}: ${reason(message)}`, {
    ...options,
    retryable: rule?.retryable ?? retryable,
  });
}

/** Whether the engine answered with one of these statuses. */
export function isStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof EngineError && statuses.includes(error.status);
}

/** The innermost cause of the engine's text, without ids, so that it is the same at every try. */
function reason(message: string): string {
  const inner = message.split(/container process: |container process caused: /).at(-1) ?? message;
  return inner
    .replaceAll(/\b[0-9a-f]{64}\b/g, '…')
    .replace(/: unknown$/, '')
    .trim()
    .slice(0, 500);
}
