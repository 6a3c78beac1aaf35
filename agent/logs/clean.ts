const lineFeed = 0x0a;
const carriageReturn = 0x0d;
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

/** A line that was written over from its start. A carriage return at its end replaces nothing yet. */
const replacing = /\r(?=[^\r\n])/;

/** Stands where a line was cut: at the end of a part, and at the start of the next one. */
export const cutMark = '…';
/** Longest part of a line, in bytes, without its marks. */
const partBytes = maxLineBytes - 2 * Buffer.byteLength(cutMark);

/**
 * Removes escape sequences and control characters from a text; tabs and line feeds stay. Of a line that was written over,
 * as progress is, the last state stays.
 */
export function clean(text: string): string {
  if (!controls.test(text)) return text;
  const plain = text.replace(escapes, '');
  const left = replacing.test(plain) ? plain.split('\n').map(lastStateOf).join('\n') : plain;
  return left.replace(everyControl, '');
}

/** What a line shows that was written over by carriage returns. */
function lastStateOf(line: string): string {
  let end = line.length;
  while (line[end - 1] === '\r') end -= 1;
  return line.slice(line.lastIndexOf('\r', end - 1) + 1, end);
}

/**
 * Splits the bytes of one stream into clean lines. A push may end within a character or a line. Invalid UTF-8 is
 * replaced. Holds at most {@link maxLineBytes} between pushes. A line that is cut has {@link cutMark} at each cut.
 */
export class LineSplitter {
  #rest: Buffer[] = [];
  #restBytes = 0;
  /** Parts of the line that has not ended were given. */
  #isPart = false;

  /** Some of a line has come, and not its end. */
  get isOpen(): boolean {
    return this.#restBytes > 0;
  }

  push(data: Uint8Array): string[] {
    const chunk = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const end = chunk.lastIndexOf(lineFeed);
    if (end === -1) return this.#keep(chunk);
    const complete =
      this.#restBytes === 0 ? chunk.subarray(0, end) : Buffer.concat([...this.#rest, chunk.subarray(0, end)]);
    this.#hold(undefined);
    const lines = this.#linesOf(complete);
    if (end + 1 < chunk.length) lines.push(...this.#keep(chunk.subarray(end + 1)));
    return lines;
  }

  /** Returns what has come of a line that has not ended, with a mark where it goes on. */
  flush(): string[] {
    const rest = Buffer.concat(this.#rest);
    const end = withoutReturns(rest, wholeCharacters(rest));
    const lines = this.#part(rest.subarray(0, end));
    if (lines.length > 0) this.#hold(rest.subarray(end));
    return lines;
  }

  /** Returns the last line if no line feed ended it. */
  end(): string[] {
    const rest = Buffer.concat(this.#rest);
    this.#hold(undefined);
    if (rest.length > 0) return this.#linesOf(rest);
    this.#isPart = false;
    return [];
  }

  #hold(rest: Buffer | undefined): void {
    this.#rest = rest === undefined || rest.length === 0 ? [] : [rest];
    this.#restBytes = rest?.length ?? 0;
  }

  #keep(chunk: Buffer): string[] {
    this.#rest.push(Buffer.from(chunk));
    this.#restBytes += chunk.length;
    if (this.#restBytes <= maxLineBytes) return [];
    const all = Buffer.concat(this.#rest);
    const whole = all.subarray(Math.max(0, all.lastIndexOf(carriageReturn, withoutReturns(all, all.length) - 1)));
    const lines: string[] = [];
    let from = 0;
    while (whole.length - from > maxLineBytes) {
      const to = characterStart(whole, from + partBytes);
      lines.push(...this.#part(whole.subarray(from, to)));
      from = to;
    }
    this.#hold(whole.subarray(from));
    return lines;
  }

  /** The next part of a line that goes on; nothing if these bytes show nothing. */
  #part(bytes: Buffer): string[] {
    const raw = bytes.toString('utf8');
    const text = clean(raw);
    if (text === '') return [];
    const isNext = this.#isPart && !replacing.test(raw);
    this.#isPart = true;
    return [`${isNext ? cutMark : ''}${text}${cutMark}`];
  }

  /** The lines of bytes at whose end a line ends. The first one may be the end of a line of which parts were given. */
  #linesOf(bytes: Buffer): string[] {
    const raw = bytes.toString('utf8');
    const lines = clean(raw).split('\n');
    const isEnd = this.#isPart;
    this.#isPart = false;
    const [first = '', ...others] = lines;
    if (!isEnd) return lines.every(isShort) ? lines : lines.flatMap((line) => cut(line));
    if (first === '') return others.flatMap((line) => cut(line));
    const lead = replacing.test(raw.split('\n', 1)[0] ?? '') ? '' : cutMark;
    return [...cut(first, lead), ...others.flatMap((line) => cut(line))];
  }
}

function isShort(line: string): boolean {
  return line.length * 3 <= partBytes || Buffer.byteLength(line) <= partBytes;
}

/** The parts of a line; `lead`: what the first one begins with. */
function cut(line: string, lead = ''): string[] {
  if (isShort(line)) return [`${lead}${line}`];
  const bytes = Buffer.from(line);
  const parts: string[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = characterStart(bytes, Math.min(from + partBytes, bytes.length));
    const isLast = to === bytes.length;
    parts.push(`${from === 0 ? lead : cutMark}${bytes.toString('utf8', from, to)}${isLast ? '' : cutMark}`);
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

/** Returns where a last character that has not come whole begins; else the length. */
function wholeCharacters(bytes: Buffer): number {
  for (let at = bytes.length - 1; at >= Math.max(0, bytes.length - 4); at -= 1) {
    const byte = bytes[at] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return at + length > bytes.length ? at : bytes.length;
  }
  return bytes.length;
}

/** Returns where the carriage returns begin that the first `end` bytes end with: they replace what follows. */
function withoutReturns(bytes: Buffer, end: number): number {
  let at = end;
  while (at > 0 && bytes[at - 1] === carriageReturn) at -= 1;
  return at;
}
