import type { Application } from './model.ts';

/** The states in which each verb is offered; the server decides and gives the reason of a refusal. */
export const verbs = {
  deploy: { label: 'Deploy', in: ['running', 'stopped', 'deploying', 'failed', 'error'] },
  start: { label: 'Start', in: ['stopped', 'failed'] },
  stop: { label: 'Stop', in: ['running', 'deploying', 'failed', 'error'] },
  restart: { label: 'Restart', in: ['running', 'error'] },
  rollback: { label: 'Roll back', in: ['running', 'failed', 'error', 'stopped'] },
} as const satisfies Record<string, { label: string; in: readonly Application['status'][] }>;

export type Verb = keyof typeof verbs;

/** Why a verb is not offered now; `undefined` if it is. */
export function whyNot(verb: Verb, status: Application['status']): string | undefined {
  const states: readonly Application['status'][] = verbs[verb].in;
  return states.includes(status) ? undefined : `Not while the application is ${status}`;
}
