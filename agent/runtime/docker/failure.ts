import type { FailureCode } from '../../../agent-protocol/failure-codes.ts';
import { RuntimeFailure } from '../runtime.ts';
import { remedyOf } from '../start-remedies.ts';
import { EngineError } from './transport.ts';

interface Rule {
  text: RegExp;
  code: FailureCode;
  retryable: boolean;
}

/** What the engine's messages mean; the first match wins. The messages are the same from engine 20.10 to 28. */
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
  // a prune of the engine removed the network: the agent makes it again with its next try
  { text: /\bnetwork \S+ not found/i, code: 'create_failed', retryable: true },
  {
    text: /executable file not found|no such file or directory|permission denied|operation not permitted|exec format error|is a directory|no command specified/i,
    code: 'create_failed',
    retryable: false,
  },
];

/** What the engine says of its own rules in the packet filter where something removed them. */
const lostRules = /iptables failed|no chain\/target\/match by that name|failed to setup ip tables/i;
const lostRulesWords =
  "the engine's rules were removed from the packet filter: on the server, systemctl restart docker sets them again, and with live-restore its containers go on";

/** The failure if no rule matches, and the codes that make sense for the call. */
export interface Fallback {
  code: FailureCode;
  /** What failed, such as "Cannot start the container"; the engine's reason follows after a colon. */
  attempted: string;
  /** Only rules for these codes and the fallback's code are used. */
  codes: readonly FailureCode[];
}

/** Throws an EngineError as a RuntimeFailure with the product's code and message; throws other errors as they are. */
export function fail(error: unknown, fallback: Fallback): never {
  if (!(error instanceof EngineError)) throw error;
  throw failureOf(error.reason, error.status >= 500, fallback, { cause: error });
}

/** Makes the RuntimeFailure for a message of the engine, such as one within a stream. */
export function failureOf(
  message: string,
  retryable: boolean,
  fallback: Fallback,
  options: ErrorOptions = {},
): RuntimeFailure {
  const rule = rules.find(
    ({ text, code }) => (code === fallback.code || fallback.codes.includes(code)) && text.test(message),
  );
  const code = rule?.code ?? fallback.code;
  const remedy = code === 'create_failed' ? remedyOf(message) : undefined;
  const why = remedy === undefined ? reason(message) : `${reason(message)}: ${remedy}`;
  return new RuntimeFailure(code, `${fallback.attempted}: ${why}`, {
    ...options,
    retryable: rule?.retryable ?? retryable,
  });
}

/** True if the engine answered with one of these statuses. */
export function isStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof EngineError && statuses.includes(error.status);
}

/** Returns the innermost cause in the engine's message, without ids, so that it is the same for every try. */
function reason(message: string): string {
  if (lostRules.test(message)) return lostRulesWords;
  const inner = message.split(/container process: |container process caused: /).at(-1) ?? message;
  return inner
    .replaceAll(/\b[0-9a-f]{64}\b/g, '…')
    .replace(/: unknown$/, '')
    .trim()
    .slice(0, 500);
}
