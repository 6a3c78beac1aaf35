import type { VNode } from 'preact';
import type { Shape as ShapeName } from './status-words.ts';

const tones: Readonly<Record<ShapeName, string>> = {
  good: 'tone-good',
  busy: 'tone-busy',
  warn: 'tone-warn',
  bad: 'tone-bad',
  idle: 'tone-idle',
  waiting: 'tone-idle',
  gone: 'tone-idle',
  info: 'tone-busy',
};

function Drawing({ of }: { readonly of: ShapeName }): VNode {
  switch (of) {
    case 'good':
      return <circle cx="6" cy="6" r="5" fill="currentColor" />;
    case 'busy':
      return (
        <g>
          <circle cx="6" cy="6" r="4.5" fill="none" stroke="currentColor" stroke-width="1.5" />
          <path class="turning" d="M6 1.5a4.5 4.5 0 0 1 0 9z" fill="currentColor" />
        </g>
      );
    case 'warn':
      return <path d="M6 .8 11.6 11H.4z" fill="currentColor" />;
    case 'bad':
      return (
        <path
          fill-rule="evenodd"
          fill="currentColor"
          d="M2 .5h8A1.5 1.5 0 0 1 11.5 2v8a1.5 1.5 0 0 1-1.5 1.5H2A1.5 1.5 0 0 1 .5 10V2A1.5 1.5 0 0 1 2 .5zm1.2 3.8L4.9 6 3.2 7.7l1.1 1.1L6 7.1l1.7 1.7 1.1-1.1L7.1 6l1.7-1.7-1.1-1.1L6 4.9 4.3 3.2z"
        />
      );
    case 'idle':
      return <rect x="1.5" y="1.5" width="9" height="9" rx="1" fill="currentColor" />;
    case 'waiting':
      return <circle cx="6" cy="6" r="4.5" fill="none" stroke="currentColor" stroke-width="1.5" />;
    case 'gone':
      return (
        <circle cx="6" cy="6" r="4.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.2 1.8" />
      );
    case 'info':
      return <path d="M6 .5 11.5 6 6 11.5.5 6z" fill="currentColor" />;
  }
}

/** The shape beside a word; it says nothing by itself to a screen reader. */
export function Shape({ of }: { readonly of: ShapeName }): VNode {
  return (
    <svg class={`shape shape-${of} ${tones[of]}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <Drawing of={of} />
    </svg>
  );
}
