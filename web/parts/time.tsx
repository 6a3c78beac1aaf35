import type { VNode } from 'preact';
import { exactTime, relativeTime } from './relative-time.ts';
import { Tooltip } from './tooltip.tsx';
import { useTicking } from './use-ticking.ts';

/** How long ago an instant was; on hover and focus to the second in the reader's zone. */
export function Time({ at }: { readonly at: string }): VNode {
  const text = useTicking((now) => relativeTime(at, now), [at]);
  return (
    <Tooltip text={exactTime(at)}>
      <time dateTime={at}>{text}</time>
    </Tooltip>
  );
}
