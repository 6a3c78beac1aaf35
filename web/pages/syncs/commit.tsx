import type { VNode } from 'preact';

const shownLength = 8;

/** The beginning of a commit, behind the tag by which it was found; all of it on hover. */
export function Commit({ of, tag }: { readonly of: string | null; readonly tag?: string | null }): VNode {
  if (of === null) return <span class="quiet">none</span>;
  const start = <code title={of}>{of.slice(0, shownLength)}</code>;
  if (tag === undefined || tag === null) return start;
  return (
    <>
      <code>{tag}</code> <span class="quiet">{start}</span>
    </>
  );
}
