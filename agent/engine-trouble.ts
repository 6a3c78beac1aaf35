import type { EngineState } from '../agent-protocol/messages.ts';
import { RuntimeFailure } from './runtime/runtime.ts';

type Trouble = NonNullable<EngineState['trouble']>;

/** By the code of the error under it: what it means, and what to do. */
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

/** What is told of an engine that cannot be used: the same words as long as the cause is the same. */
export function engineTrouble(error: unknown): Trouble {
  const known = byCode[codeOf(error) ?? ''];
  const base = error instanceof RuntimeFailure ? error.message : 'The container engine does not answer';
  if (known !== undefined) return told(known.reason, base, known.advice);
  // The agent's own deadlines are no failures of the runtime: they end a call that nobody answered.
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
