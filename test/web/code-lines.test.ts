import { describe, expect, it } from 'vitest';
import { broken, indented, lineCount } from '../../web/parts/code-lines.ts';

/** A text whose selection stands between two bars; one bar: nothing is selected. */
function selected(marked: string) {
  const [before = '', inside = '', after] = marked.split('|');
  if (after === undefined) return { text: before + inside, start: before.length, end: before.length };
  return { text: before + inside + after, start: before.length, end: before.length + inside.length };
}

describe('lines of code', () => {
  it('move in and out with all that is selected, which stays so', () => {
    expect(indented(selected('a\n|b\nc|\nd'), 'in')).toEqual(selected('a\n  |b\n  c|\nd'));
    expect(indented(selected('a\n  |b\n  c|\nd'), 'out')).toEqual(selected('a\n|b\nc|\nd'));
    expect(indented(selected('a\n|b\n|c'), 'in')).toEqual({ text: 'a\n  b\nc', start: 4, end: 6 });
  });

  it('move out where nothing is selected, and get a step in at the cursor', () => {
    expect(indented(selected('if x:\n    y|'), 'out')).toEqual(selected('if x:\n  y|'));
    expect(indented(selected('\ty|'), 'out')).toEqual(selected('y|'));
    expect(indented(selected('y|'), 'out')).toEqual(selected('y|'));
    expect(indented(selected('a|b'), 'in')).toEqual(selected('a  |b'));
  });

  it('keep the indentation of the line before', () => {
    expect(broken(selected('if x:\n    y|z'))).toEqual(selected('if x:\n    y\n    |z'));
    expect(broken(selected('  a|bc|d'))).toEqual(selected('  a\n  |d'));
    expect(broken(selected('|'))).toEqual(selected('\n|'));
  });

  it('are counted with the last one', () => {
    expect([lineCount(''), lineCount('a'), lineCount('a\n'), lineCount('a\nb')]).toEqual([1, 1, 2, 2]);
  });
});
