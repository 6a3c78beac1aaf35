import type { ComponentChildren, VNode } from 'preact';
import { Duration } from './duration.tsx';
import { durationText } from './relative-time.ts';
import { Shape } from './shape.tsx';

export interface Step {
  readonly name: string;
  readonly status: 'waiting' | 'running' | 'done' | 'failed' | 'skipped';
  /** How long it took. */
  readonly ms?: number | undefined;
  /** When it began, while it runs. */
  readonly since?: string | undefined;
  readonly detail?: ComponentChildren;
}

const shapes = { waiting: 'waiting', running: 'busy', done: 'good', failed: 'bad', skipped: 'idle' } as const;
const words = {
  waiting: 'waits',
  running: 'is running',
  done: 'is done',
  failed: 'failed',
  skipped: 'was skipped',
} as const;

interface StepsProps {
  readonly label: string;
  readonly steps: readonly Step[];
  /** One below the other, with details. */
  readonly isDown?: boolean | undefined;
}

/** The parts of something that takes time, with how long each took; the seconds of the one that runs go on. */
export function Steps({ label, steps, isDown = false }: StepsProps): VNode {
  return (
    <ol class={isDown ? 'steps steps-down' : 'steps'} aria-label={label} tabIndex={isDown ? undefined : 0}>
      {steps.map(({ name, status, ms, since, detail }) => (
        <li key={name} aria-current={status === 'running' ? 'step' : undefined}>
          <Shape of={shapes[status]} />
          <span>{name}</span>
          <span class="sr-only">{words[status]}</span>
          {status === 'running' && since !== undefined ? (
            <span class="quiet small">
              <Duration from={since} />
            </span>
          ) : (
            ms !== undefined && <span class="quiet small numeric">{durationText(ms)}</span>
          )}
          {detail !== undefined && detail !== '' && <span class="quiet small">{detail}</span>}
        </li>
      ))}
    </ol>
  );
}
