import type { VNode } from 'preact';
import { Copy } from './copy.tsx';

/** A text to copy: a command, or an example. */
export function Command({ text, label }: { readonly text: string; readonly label?: string | undefined }): VNode {
  return (
    <div class="command">
      <pre>
        <code>{text}</code>
      </pre>
      <Copy text={text} label={label ?? 'Copy command'} />
    </div>
  );
}
