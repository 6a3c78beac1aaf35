import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { broken, indented, lineCount } from './code-lines.ts';
import type { Selected } from './code-lines.ts';
import type { ControlProps } from './field.tsx';

interface CodeInputProps {
  readonly control: ControlProps;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly isOff?: boolean | undefined;
  /** Lines that it has room for at least. */
  readonly lines?: number | undefined;
}

/**
 * Source text with the numbers of its lines. Tab and Shift+Tab move lines in and out, Enter keeps the indentation; after
 * Escape the next Tab leaves it.
 */
export function CodeInput({ control, value, onInput, isOff = false, lines = 12 }: CodeInputProps): VNode {
  const leaves = useRef(false);
  const count = Math.max(lines, lineCount(value));
  const take = (element: HTMLTextAreaElement, next: Selected): void => {
    // the element has the text before its selection is set; a draw with the same text leaves both
    element.value = next.text;
    element.setSelectionRange(next.start, next.end);
    onInput(next.text);
  };
  const onKeyDown = (event: KeyboardEvent & { readonly currentTarget: HTMLTextAreaElement }): void => {
    const element = event.currentTarget;
    const selected = { text: element.value, start: element.selectionStart, end: element.selectionEnd };
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === 'Escape') {
      leaves.current = true;
      return;
    }
    if (event.key === 'Tab' && !leaves.current && !isOff) {
      event.preventDefault();
      take(element, indented(selected, event.shiftKey ? 'out' : 'in'));
    } else if (event.key === 'Enter' && !event.shiftKey && !isOff) {
      event.preventDefault();
      take(element, broken(selected));
    }
    if (event.key !== 'Shift') leaves.current = false;
  };
  return (
    <div class="code">
      <div class="code-numbers" aria-hidden="true">
        {Array.from({ length: lineCount(value) }, (_, at) => at + 1).join('\n')}
      </div>
      <textarea
        {...control}
        class="code-text"
        rows={count}
        wrap="off"
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        readOnly={isOff}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
        onKeyDown={onKeyDown}
        onFocus={() => (leaves.current = false)}
      />
    </div>
  );
}

/** What the keys of the field do, for the help below it. */
export const codeKeys = 'Tab and Shift+Tab move lines in and out; Escape, then Tab, goes on to the next field.';
