import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

const text = await readFile(join(import.meta.dirname, '../../web/style/tokens.css'), 'utf8');

type Scheme = 'light' | 'dark';

/** The two colours of each token, as the file has them. */
const tokens = new Map(
  [...text.matchAll(/--([a-z-]+): light-dark\((#\w+), (#\w+)\)/g)].map(([, name = '', light = '', dark = '']) => [
    name,
    { light, dark },
  ]),
);

function channels(colour: string): number[] {
  const digits = colour.length === 4 ? colour.slice(1).replaceAll(/./g, '$&$&') : colour.slice(1);
  return [0, 2, 4].map((at) => Number.parseInt(digits.slice(at, at + 2), 16) / 255);
}

/** Relative luminance by WCAG 2.2. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(scheme: Scheme, one: string, other: string): number {
  const [first, second] = [one, other].map((name) => {
    const colour = tokens.get(name)?.[scheme];
    if (colour === undefined) throw new Error(`tokens.css has no --${name}`);
    return luminance(colour);
  });
  const [light, dark] = [Math.max(first!, second!), Math.min(first!, second!)];
  return (light + 0.05) / (dark + 0.05);
}

const grounds = ['bg', 'surface', 'sunken'] as const;
const tones = ['good', 'busy', 'warn', 'bad', 'idle'] as const;

describe.each(['light', 'dark'] as const)('the colours of the %s scheme', (scheme) => {
  test.each(['text', 'quiet', 'accent', ...tones])('give --%s as text on each ground at least 4.5', (name) => {
    for (const ground of grounds) expect(contrast(scheme, name, ground)).toBeGreaterThanOrEqual(4.5);
  });

  test.each(['edge', 'focus'])('give --%s on each ground at least 3', (name) => {
    for (const ground of grounds) expect(contrast(scheme, name, ground)).toBeGreaterThanOrEqual(3);
  });

  test.each(tones)('give --%s on its own ground at least 4.5', (name) => {
    expect(contrast(scheme, name, `${name}-bg`)).toBeGreaterThanOrEqual(4.5);
  });

  test('give what stands on a button and on a mark at least 4.5', () => {
    expect(contrast(scheme, 'on-accent', 'accent')).toBeGreaterThanOrEqual(4.5);
    expect(contrast(scheme, 'on-accent', 'bad')).toBeGreaterThanOrEqual(4.5);
    expect(contrast(scheme, 'text', 'mark')).toBeGreaterThanOrEqual(4.5);
    for (const tone of tones) expect(contrast(scheme, 'text', `${tone}-bg`)).toBeGreaterThanOrEqual(4.5);
  });
});

test('the table of contrasts is that of the design', () => {
  const row = (scheme: Scheme, name: string): string =>
    grounds.map((ground) => contrast(scheme, name, ground).toFixed(1)).join('/');
  expect(row('light', 'text')).toBe('16.4/15.4/14.2');
  expect(row('light', 'warn')).toBe('5.9/5.6/5.1');
  expect(row('light', 'edge')).toBe('3.7/3.5/3.2');
  expect(row('dark', 'text')).toBe('15.2/13.8/16.0');
  expect(row('dark', 'idle')).toBe('7.3/6.7/7.8');
});
