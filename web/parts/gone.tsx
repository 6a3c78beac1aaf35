import type { VNode } from 'preact';
import { EmptyState } from './empty-state.tsx';
import { LinkButton } from './button.tsx';
import { Time } from './time.tsx';

interface GoneProps {
  /** What it was, such as `Server fsn1`. */
  readonly what: string;
  /** When it went, where this page saw it go. */
  readonly at?: string | undefined;
  readonly back: { readonly href: string; readonly label: string };
}

/** In place of an object that does not exist any more. */
export function Gone({ what, at, back }: GoneProps): VNode {
  return (
    <EmptyState
      title={at === undefined ? `${what} does not exist` : `${what} was deleted`}
      action={<LinkButton href={back.href}>{back.label}</LinkButton>}
    >
      {at === undefined ? (
        'It was deleted, or it is not yours to see.'
      ) : (
        <>
          It was deleted <Time at={at} />.
        </>
      )}
    </EmptyState>
  );
}
