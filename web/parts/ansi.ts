/** A piece of a line that has one look. */
export interface Span {
  readonly text: string;
  /** Classes of `log.css`; empty for plain text. */
  readonly look: string;
}

interface Pen {
  colour: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  reverse: boolean;
}

const plain: Readonly<Pen> = { colour: '', bold: false, dim: false, italic: false, underline: false, reverse: false };

/** The sixteen colours of terminals; black and white are the text of the page, which has contrast on any ground. */
const names = ['grey', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'plain'] as const;

const sequence = /\p{Cc}\[([0-9;]*)m/gu;

/** Splits a line at the colour sequences of a terminal. Other control characters were removed by the server. */
export function spansOf(line: string): Span[] {
  if (!line.includes('\u001B')) return line === '' ? [] : [{ text: line, look: '' }];
  const spans: Span[] = [];
  let pen: Pen = { ...plain };
  let start = 0;
  const add = (end: number): void => {
    if (end > start) spans.push({ text: line.slice(start, end), look: lookOf(pen) });
  };
  for (const found of line.matchAll(sequence)) {
    add(found.index);
    start = found.index + found[0].length;
    pen = changed(pen, found[1] ?? '');
  }
  add(line.length);
  return spans;
}

/** The text of a line without colours. */
export function plainText(line: string): string {
  return line.includes('\u001B') ? line.replaceAll(sequence, '') : line;
}

function lookOf({ colour, bold, dim, italic, underline, reverse }: Pen): string {
  return [
    colour !== '' && `ansi-${colour}`,
    bold && 'ansi-bold',
    dim && 'ansi-dim',
    italic && 'ansi-italic',
    underline && 'ansi-underline',
    reverse && 'ansi-reverse',
  ]
    .filter((name) => name !== false)
    .join(' ');
}

function changed(before: Pen, parameters: string): Pen {
  let pen: Pen = { ...before };
  const codes = parameters.split(';').map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 38 || code === 48) {
      const { colour, length } = extended(codes, at + 1);
      if (code === 38) pen.colour = colour;
      at += length;
    } else pen = withCode(pen, code);
  }
  return pen;
}

function withCode(pen: Pen, code: number): Pen {
  if (code >= 30 && code <= 37) return { ...pen, colour: names[code - 30] ?? '' };
  if (code >= 90 && code <= 97) return { ...pen, colour: names[code - 90] ?? '' };
  switch (code) {
    case 0:
      return { ...plain };
    case 1:
      return { ...pen, bold: true };
    case 2:
      return { ...pen, dim: true };
    case 3:
      return { ...pen, italic: true };
    case 4:
      return { ...pen, underline: true };
    case 7:
      return { ...pen, reverse: true };
    case 22:
      return { ...pen, bold: false, dim: false };
    case 23:
      return { ...pen, italic: false };
    case 24:
      return { ...pen, underline: false };
    case 27:
      return { ...pen, reverse: false };
    case 39:
      return { ...pen, colour: '' };
    default:
      return pen;
  }
}

/** A colour of 256 or of 16 million, as the nearest of the sixteen; `length`: how many codes it takes. */
function extended(codes: readonly number[], at: number): { colour: string; length: number } {
  if (codes[at] === 5) return { colour: ofPalette(codes[at + 1] ?? 0), length: 2 };
  if (codes[at] !== 2) return { colour: '', length: 0 };
  return { colour: nearest(codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0), length: 4 };
}

function ofPalette(index: number): string {
  if (index < 16) return names[index % 8] ?? '';
  if (index >= 232) return index < 244 ? 'grey' : 'plain';
  const cube = index - 16;
  const level = (value: number): number => (value === 0 ? 0 : 55 + 40 * value);
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** The name whose hue is nearest: each is drawn in a token of the page that has contrast. */
function nearest(red: number, green: number, blue: number): string {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 32) return most < 150 ? 'grey' : 'plain';
  const range = most - least;
  let hue: number;
  if (most === red) hue = ((green - blue) / range + 6) % 6;
  else if (most === green) hue = (blue - red) / range + 2;
  else hue = (red - green) / range + 4;
  return ['red', 'yellow', 'green', 'cyan', 'blue', 'magenta'][Math.round(hue) % 6] ?? '';
}
