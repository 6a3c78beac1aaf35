import type { VNode } from 'preact';

const shownLength = 8;

/** The beginning of a commit; all of it on hover. */
export function Commit({ of }: { readonly of: string | null }): VNode {
  return of === null ? <span class="quiet">none</span> : <code title={of}>{of.slice(0, shownLength)}</code>;
}
