import type { HealAction, MachineCheck } from '../../agent-protocol/diagnosis.ts';
import type { World } from './world.ts';

/** What a check found. A finding that is healed says what would be done in `remedy`, too. */
export type Finding =
  | { status: 'pass'; message: string }
  | { status: 'warn' | 'fail'; message: string; remedy: string; isHealable?: boolean };

/** An action of one check: its name is added by its caller. */
export type Action = Omit<HealAction, 'check'>;

/** One look at the machine, and what heals what it finds. */
export interface Check {
  name: MachineCheck;
  /** It asks others than the machine, so that it may have to wait for an answer that never comes. */
  isOutside?: true;
  /** @throws Error if it cannot be examined: RuntimeFailure with a message for the user */
  look: (world: World, signal: AbortSignal) => Promise<Finding>;
  /** Idempotent, and safe beside all else that the agent does. Absent: only a person can heal it. */
  heal?: (world: World, signal: AbortSignal) => Promise<Action[]>;
}

/** Most things of one kind that one healing touches; a further one goes on. */
export const mostHealed = 30;

/** The first of some names, with how many more there are. */
export function someOf(names: readonly string[], most = 5): string {
  const shown = names.slice(0, most).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

export function inMiB(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}
