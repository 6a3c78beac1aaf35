import type { VNode } from 'preact';

/** In place of what is being read; it appears after 150 ms, so that quick answers do not flash. */
export function Skeleton({
  lines = 5,
  label = 'Reading',
}: {
  readonly lines?: number;
  readonly label?: string;
}): VNode {
  return (
    <div class="skeleton" role="status">
      <span class="sr-only">{label}…</span>
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}
