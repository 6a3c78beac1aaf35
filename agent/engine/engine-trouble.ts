import type { EngineState } from '../../agent-protocol/messages.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { TroubleWords } from '../runtime/trouble-words.ts';

export type Trouble = NonNullable<EngineState['trouble']>;

/** Describes an engine that cannot be used. The text is the same while the cause is the same. */
export function engineTrouble(words: TroubleWords, error: unknown): Trouble {
  const known = words.byCode[codeOf(error) ?? ''];
  const base = error instanceof RuntimeFailure ? error.message : 'The container engine does not answer';
  if (known !== undefined) return trouble(known.reason, base, known.advice);
  // An error that is not a RuntimeFailure is the agent's own deadline: the engine did not answer the call.
  if (!(error instanceof RuntimeFailure)) return trouble('EngineHangs', base, words.hangs);
  return { reason: 'EngineUnusable', message: base.slice(0, 500) };
}

function trouble(reason: string, what: string, advice: string): Trouble {
  return { reason, message: `${what}: ${advice}`.slice(0, 500) };
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error.cause !== undefined) return codeOf(error.cause);
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
