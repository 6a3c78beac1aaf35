import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { folded, lineDiff } from './line-diff.ts';
import type { DiffFold, DiffLine } from './line-diff.ts';

interface DiffProps {
  readonly label: string;
  readonly before: string;
  readonly after: string;
}

const signs = { same: ' ', added: '+', removed: '−' } as const;
const words = { same: '', added: 'added', removed: 'removed' } as const;

/** Two texts by line. Long runs of equal lines are folded until they are opened. */
export function Diff({ label, before, after }: DiffProps): VNode {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const rows = folded(lineDiff(before, after));
  if (before === after) return <p class="quiet">Both are equal.</p>;
  return (
    <div class="diff" role="region" aria-label={label} tabIndex={0}>
      <table>
        <tbody>
          {rows.map((row, at) =>
            row.kind === 'fold' && !open.has(at) ? (
              <FoldRow key={at} fold={row} onOpen={() => setOpen(new Set([...open, at]))} />
            ) : (
              linesOf(row).map((line) => <LineRow key={`${line.before ?? ''}/${line.after ?? ''}`} line={line} />)
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}

function linesOf(row: DiffLine | DiffFold): readonly DiffLine[] {
  return row.kind === 'fold' ? row.lines : [row];
}

function FoldRow({ fold, onOpen }: { readonly fold: DiffFold; readonly onOpen: () => void }): VNode {
  return (
    <tr class="fold">
      <td colSpan={4}>
        <button type="button" class="link-button" onClick={onOpen}>
          {fold.lines.length} equal lines
        </button>
      </td>
    </tr>
  );
}

function LineRow({ line: { kind, text, before, after } }: { readonly line: DiffLine }): VNode {
  return (
    <tr class={kind}>
      <td class="number">{before ?? ''}</td>
      <td class="number">{after ?? ''}</td>
      <td class="sign">
        <span aria-hidden="true">{signs[kind]}</span>
        <span class="sr-only">{words[kind]}</span>
      </td>
      <td>{text}</td>
    </tr>
  );
}
