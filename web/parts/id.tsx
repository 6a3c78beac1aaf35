import type { VNode } from 'preact';
import { Copy } from './copy.tsx';

const shownLength = 8;

/** The beginning of an id, and a button that copies all of it. */
export function Id({ of, what = 'id' }: { readonly of: string; readonly what?: string }): VNode {
  return (
    <span class="id">
      <code title={of}>{of.length > shownLength + 4 ? `${of.slice(0, shownLength)}…` : of}</code>
      <Copy text={of} label={`Copy ${what}`} />
    </span>
  );
}
