import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { difference, faultOfValue, parsed, rebased, textOf } from '../../../web/pages/application/env-text.ts';

describe('variables as text', () => {
  it('come back as they were, whatever they hold', () => {
    const name = fc.stringMatching(/^[A-Za-z_][\w.-]{0,12}$/);
    const value = fc.string({ maxLength: 40 });
    fc.assert(
      fc.property(fc.dictionary(name, value), (variables) => {
        const { variables: back, faults } = parsed(textOf(variables));
        expect(faults).toEqual([]);
        expect(back).toEqual({ ...variables });
      }),
    );
  });

  it('have no carriage return, which a text area would make a line break', () => {
    const variables = { A: '1\r\nB=2', C: 'x\ry' };
    const text = textOf(variables);
    expect(text).not.toContain('\r');
    expect(parsed(text)).toEqual({ variables, faults: [] });
  });

  it('take what people paste', () => {
    const text = '# comment\n\nexport A=1\nB="two words"\nC=\'$x\'\r\nD=a=b\nE=\nF=x # why\n';
    expect(parsed(text)).toEqual({
      variables: { A: '1', B: 'two words', C: '$x', D: 'a=b', E: '', F: 'x' },
      faults: [],
    });
  });

  it('say which line is wrong', () => {
    expect(parsed('A=1\nnothing\nB C=2').faults.map(({ line }) => line)).toEqual([2, 3]);
  });

  it('say when a value is too long, in bytes', () => {
    expect(faultOfValue('ü'.repeat(16 * 1024))).toBeUndefined();
    expect(faultOfValue('ü'.repeat(16 * 1024 + 1))).toContain('32770 bytes');
  });
});

describe('a draft of variables', () => {
  it('is sent as what it changes', () => {
    expect(difference({ A: '1', B: '2', C: '3' }, { A: '1', B: 'x', D: '4' })).toEqual({ B: 'x', C: null, D: '4' });
  });

  it('stays on top of what somebody else has stored meanwhile', () => {
    const next = rebased({ A: '1', B: '2', C: '3' }, { A: 'mine', B: '2' }, { A: 'theirs', B: 'theirs', C: '3' });
    expect(next).toEqual({ draft: { A: 'mine', B: 'theirs' }, conflicts: ['A'] });
  });
});
