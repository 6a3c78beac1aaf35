const lineFeed = 0x0a;
/** Longest stored line, in bytes; a longer line is cut into several. */
export const maxLineBytes = 16 * 1024;

/** Sequences that move cursors and set colours: CSI, OSC (to BEL or ST), and two-character ones. */
// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])?/g;
/** C0 except tab and line feed, DEL and C1. */
// oxlint-disable-next-line no-control-regex -- as above
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
// oxlint-disable-next-line no-control-regex -- as above
const everyControl = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Removes escape sequences and control characters from a text; tabs and line feeds stay. */
export function clean(text: string): string {
  if (!controls.test(text)) return text;
  return text.replace(escapes, '').replace(everyControl, '');
}

/**
 * Splits the bytes of one stream into clean lines. A push may end within a character or a line. Invalid UTF-8 is
 * replaced. Holds at most {@link maxLineBytes} between pushes.
 */
export class LineSplitter {
  #rest: Buffer[] = [];
  #restBytes = 0;

  push(data: Uint8Array): string[] {
    const chunk = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const end = chunk.lastIndexOf(lineFeed);
    if (end === -1) return this.#keep(chunk);
    const complete =
      this.#restBytes === 0 ? chunk.subarray(0, end) : Buffer.concat([...this.#rest, chunk.subarray(0, end)]);
    this.#rest = [];
    this.#restBytes = 0;
    const lines = splitLines(complete);
    if (end + 1 < chunk.length) lines.push(...this.#keep(chunk.subarray(end + 1)));
    return lines;
  }

  /** Returns the last line if no line feed ended it. */
  end(): string[] {
    if (this.#restBytes === 0) return [];
    const rest = Buffer.concat(this.#rest);
    this.#rest = [];
    this.#restBytes = 0;
    return splitLines(rest);
  }

  #keep(chunk: Buffer): string[] {
    this.#rest.push(Buffer.from(chunk));
    this.#restBytes += chunk.length;
    if (this.#restBytes <= maxLineBytes) return [];
    const whole = Buffer.concat(this.#rest);
    const lines: string[] = [];
    let from = 0;
    while (whole.length - from > maxLineBytes) {
      const to = characterStart(whole, from + maxLineBytes);
      lines.push(clean(whole.toString('utf8', from, to)));
      from = to;
    }
    this.#rest = [whole.subarray(from)];
    this.#restBytes = whole.length - from;
    return lines;
  }
}

function splitLines(bytes: Buffer): string[] {
  const lines = clean(bytes.toString('utf8')).split('\n');
  return lines.every((line) => line.length * 3 <= maxLineBytes || Buffer.byteLength(line) <= maxLineBytes)
    ? lines
    : lines.flatMap(cut);
}

function cut(line: string): string[] {
  if (line.length * 3 <= maxLineBytes || Buffer.byteLength(line) <= maxLineBytes) return [line];
  const bytes = Buffer.from(line);
  const parts: string[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = characterStart(bytes, Math.min(from + maxLineBytes, bytes.length));
    parts.push(bytes.toString('utf8', from, to));
    from = to;
  }
  return parts;
}

/** Returns the start of the UTF-8 character that contains the byte `at`: at most three bytes before it. */
function characterStart(bytes: Buffer, at: number): number {
  let start = at;
  while (start > at - 4 && start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start -= 1;
  return start === at - 4 ? at : start;
}
