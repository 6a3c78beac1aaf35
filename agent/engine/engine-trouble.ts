import type { EngineState } from '../../agent-protocol/messages.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

type Trouble = NonNullable<EngineState['trouble']>;

/** What an error means and what to do, by the code of its innermost cause. */
const byCode: Readonly<Record<string, Omit<Trouble, 'message'> & { advice: string }>> = {
  ENOENT: {
    reason: 'EngineNotRunning',
    advice: 'its socket is not there. Install Docker, or start it: systemctl start docker',
  },
  ECONNREFUSED: {
    reason: 'EngineNotRunning',
    advice: 'nobody listens on its socket. Start it: systemctl start docker',
  },
  EACCES: {
    reason: 'EngineForbidden',
    advice: 'the agent may not use its socket. Run the agent as root, or in the group of the socket',
  },
};
const hangs = {
  reason: 'EngineHangs',
  advice: 'it takes calls and does not answer them. See journalctl -u docker, and restart it: systemctl restart docker',
};

/** Describes an engine that cannot be used. The text is the same while the cause is the same. */
export function engineTrouble(error: unknown): Trouble {
  const known = byCode[codeOf(error) ?? ''];
  const base = error instanceof RuntimeFailure ? error.message : 'The container engine does not answer';
  if (known !== undefined) return told(known.reason, base, known.advice);
  // An error that is not a RuntimeFailure is the agent's own deadline: the engine did not answer the call.
  if (!(error instanceof RuntimeFailure)) return told(hangs.reason, base, hangs.advice);
  return { reason: 'EngineUnusable', message: base.slice(0, 500) };
}

function told(reason: string, what: string, advice: string): Trouble {
  return { reason, message: `${what}: ${advice}`.slice(0, 500) };
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error.cause !== undefined) return codeOf(error.cause);
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
