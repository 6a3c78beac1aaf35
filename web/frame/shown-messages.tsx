import type { VNode } from 'preact';
import { X } from 'lucide-static';
import { useConsole } from './context.ts';
import { Icon } from './icon.tsx';

/** What happened somewhere that the page has no place for; a screen reader says it. */
export function ShownMessages(): VNode {
  const { messages } = useConsole();
  return (
    <div class="messages" role="status" aria-live="polite">
      {messages.shown.value.map(({ id, text, tone }) => (
        <p key={id} class={`notice notice-${tone}`}>
          <span class="grow">{text}</span>
          <button
            class="button button-plain button-icon button-small"
            aria-label="Close the message"
            onClick={() => messages.close(id)}
          >
            <Icon of={X} />
          </button>
        </p>
      ))}
    </div>
  );
}
