import type { VNode } from 'preact';
import { spansOf } from './ansi.ts';
import { piecesOf } from './log-search.ts';

/** A line with the colours of a terminal, and what was searched for marked in it. */
export function AnsiLine({ text, needle = '' }: { readonly text: string; readonly needle?: string }): VNode {
  return (
    <>
      {spansOf(text.replaceAll('\t', '    ')).map(({ text: part, look }, at) => {
        const pieces = piecesOf(part, needle).map((piece, by) =>
          piece.isMatch ? <mark key={by}>{piece.text}</mark> : piece.text,
        );
        return look === '' ? (
          pieces
        ) : (
          <span key={at} class={look}>
            {pieces}
          </span>
        );
      })}
    </>
  );
}
