import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { copyText } from './copy-text.ts';
import { IconButton } from './button.tsx';

const toldMs = 2000;

/** Copies a text, and says so. */
export function Copy({ text, label = 'Copy' }: { readonly text: string; readonly label?: string }): VNode {
  const [told, setTold] = useState<string>();
  useEffect(() => {
    if (told === undefined) return undefined;
    const timer = setTimeout(() => setTold(undefined), toldMs);
    return () => clearTimeout(timer);
  }, [told]);
  const copy = (): void => {
    copyText(text).then(
      () => setTold('Copied'),
      () => setTold('The browser does not let this page copy: select the text'),
    );
  };
  return (
    <span class="copy">
      <IconButton icon="copy" label={label} isSmall onClick={copy} />
      <span class={told === undefined ? 'sr-only' : 'copy-told'} role="status">
        {told ?? ''}
      </span>
    </span>
  );
}
