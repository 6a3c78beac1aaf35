import type { VNode } from 'preact';
import { durationText } from './relative-time.ts';
import { useTicking } from './use-ticking.ts';

interface DurationProps {
  /** When it began. */
  readonly from: string;
  /** When it ended; without it the seconds go on. */
  readonly to?: string | null | undefined;
}

/** How long something took, or takes since. */
export function Duration({ from, to }: DurationProps): VNode {
  const text = useTicking(
    (now) => durationText(Math.max(0, (to === undefined || to === null ? now : Date.parse(to)) - Date.parse(from))),
    [from, to],
  );
  return <span class="numeric">{text}</span>;
}
