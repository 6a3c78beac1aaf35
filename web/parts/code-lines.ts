/** A text with a selection in it. */
export interface Selected {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const unit = '  ';

/** The lines that a selection touches, moved by one step in or out; without a selection, a step in is put where it stands. */
export function indented({ text, start, end }: Selected, direction: 'in' | 'out'): Selected {
  if (direction === 'in' && start === end)
    return {
      text: `${text.slice(0, start)}${unit}${text.slice(end)}`,
      start: start + unit.length,
      end: end + unit.length,
    };
  const from = text.lastIndexOf('\n', start - 1) + 1;
  const next = text.indexOf('\n', end > start && text[end - 1] === '\n' ? end - 1 : end);
  const to = next === -1 ? text.length : next;
  const lines = text.slice(from, to).split('\n');
  const moved = lines.map((line) => (direction === 'in' ? `${unit}${line}` : line.replace(/^(?: {1,2}|\t)/, '')));
  const ofFirst = (moved[0]?.length ?? 0) - (lines[0]?.length ?? 0);
  const all = moved.join('\n');
  return {
    text: `${text.slice(0, from)}${all}${text.slice(to)}`,
    start: Math.max(from, start + ofFirst),
    end: Math.max(from, end + all.length - (to - from)),
  };
}

/** A line break that keeps the indentation of the line before. */
export function broken({ text, start, end }: Selected): Selected {
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start);
  const margin = /^[ \t]*/.exec(line)?.[0] ?? '';
  const at = start + 1 + margin.length;
  return { text: `${text.slice(0, start)}\n${margin}${text.slice(end)}`, start: at, end: at };
}

/** How many lines a text has. */
export function lineCount(text: string): number {
  return text.split('\n').length;
}
