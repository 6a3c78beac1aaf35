import type { VNode } from 'preact';
import { Shape } from './shape.tsx';
import type { Look } from './status-words.ts';

interface Count {
  readonly look: Look;
  readonly count: number;
  /** The address with the filter that shows these. */
  readonly href: string;
  readonly isActive: boolean;
}

/** How many objects have which status; each count is a link that sets the filter. */
export function StatusCount({ label, of }: { readonly label: string; readonly of: readonly Count[] }): VNode {
  return (
    <nav class="status-count" aria-label={label}>
      {of
        .filter(({ count, isActive }) => count > 0 || isActive)
        .map(({ look, count, href, isActive }) => (
          <a key={href} href={href} aria-current={isActive ? 'true' : undefined}>
            <Shape of={look.shape} />
            <span class="numeric strong">{count}</span> {look.word}
          </a>
        ))}
    </nav>
  );
}
