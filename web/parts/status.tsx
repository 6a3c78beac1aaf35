import type { VNode } from 'preact';
import { Shape } from './shape.tsx';
import { lookOf } from './status-words.ts';
import type { Look, StatusKind, WithStatus } from './status-words.ts';
import { Time } from './time.tsx';

interface StatusProps {
  readonly kind: StatusKind;
  readonly object: WithStatus;
  /** When it came to be so; it is shown behind the word. */
  readonly since?: string | undefined;
}

/** The status of an object: a shape, a word, and since when. */
export function Status({ kind, object, since }: StatusProps): VNode {
  return <StatusWord look={lookOf(kind, object)} since={since} />;
}

/** A status whose word and shape are known already. */
export function StatusWord({ look, since }: { readonly look: Look; readonly since?: string | undefined }): VNode {
  return (
    <span class="status">
      <Shape of={look.shape} />
      <span class="status-word">{look.word}</span>
      {since !== undefined && (
        <span class="status-since">
          · <Time at={since} />
        </span>
      )}
    </span>
  );
}
