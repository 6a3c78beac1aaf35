import { DumpFault } from './whole-dump.ts';

/** Statements by their plain words that are left out: they name roles, as by `--no-owner --no-privileges`, or say what is so. */
const leftOut = [
  /^ALTER\s[^;]*\sOWNER\s+TO\s+[^\s;]+\s*;$/i,
  /^(?:GRANT|REVOKE)\s/i,
  /^ALTER\s+DEFAULT\s+PRIVILEGES\s/i,
  /^SET\s+SESSION\s+AUTHORIZATION\s/i,
  /^CREATE\s+SCHEMA\s+public\s*;$/i,
  // older servers do not know it, and others have it so
  /^SET\s+transaction_timeout\s*=\s*0\s*;$/i,
  // newer releases of psql take an empty one for the COPY before it once more, and all that follows for its data
  /^;$/,
];
const isCopy = /^COPY(?![\w$\u0080-\u00ff])/i;
/** After this statement data follows, up to a line `\.`. Any other `COPY` is refused: data could follow it, too. */
const beginsData =
  /^COPY(?![\w$\u0080-\u00ff])\s*(?:BINARY\s+)?[\w$?&\u0080-\u00ff]+(?:\s*\.\s*[\w$?&\u0080-\u00ff]+)*\s*(?:\(\)\s*)?FROM\s+STDIN(?![\w$\u0080-\u00ff])/i;
const makesRoutine = /^CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\s/i;
const restriction = /^\\(?:un)?restrict\s+[A-Za-z0-9]+\s*$/;

/** A statement is left out only if it has no more than this. */
const mostHeldBytes = 64 * 1024;
const mostPlainCharacters = 64 * 1024;
const mostLineBytes = 1024;
const mostTagBytes = 128;

const [newline, double, dollar, single, open, close, star] = [0x0a, 0x22, 0x24, 0x27, 0x28, 0x29, 0x2a];
const [minus, slash, semicolon, backslash] = [0x2d, 0x2f, 0x3b, 0x5c];

/** What a byte is part of; `pending`: the rest of the line of a statement that data follows. */
type Mode =
  | 'plain'
  | 'line-comment'
  | 'block-comment'
  | 'quoted'
  | 'escaped'
  | 'name'
  | 'tag'
  | 'dollar'
  | 'command'
  | 'pending'
  | 'data';

/** What a script that ends in a mode ends within. */
const withinWords: Readonly<Record<Exclude<Mode, 'plain'>, string>> = {
  'line-comment': 'a comment',
  'block-comment': 'a comment',
  quoted: 'a text',
  escaped: 'a text',
  name: 'a name in quotes',
  tag: 'a text',
  dollar: 'a text',
  command: 'a command',
  pending: 'a COPY, before its data',
  data: 'the data of a COPY',
};

/**
 * What `psql` may read of a script that people bring: no command of `psql` is among it but the end of data, as others start
 * programs and read files. The lines `\restrict` and `\unrestrict` of newer dumps are left out, and so are statements that
 * give things to roles. It reads the script as `psql` does, and refuses what `psql` could read otherwise, and what is not
 * whole: the last statement ends in what is passed on.
 *
 * @param isRestricted the program itself refuses commands (`\restrict`), whatever it takes for one
 * @throws DumpFault with the number of the line
 */
export async function* safeScript(
  source: AsyncIterable<Uint8Array>,
  { isRestricted }: { isRestricted: boolean },
): AsyncGenerator<Uint8Array, void, undefined> {
  const script = new Script(isRestricted);
  for await (const chunk of source) {
    const passed = script.read(chunk);
    if (passed.length > 0) yield passed;
  }
  const rest = script.end();
  if (rest.length > 0) yield rest;
}

/** Where in a script the next byte is. What of a statement may still be left out is at the end of `#out`. */
class Script {
  readonly #isRestricted: boolean;
  #mode: Mode = 'plain';
  #line = 1;
  /** The plain byte just before; 0: it was of something else. */
  #before = 0;
  /** The word that is being read: its first byte, and its first letters. */
  #wordBegin = 0;
  #word = '';
  /** The statement without comments and what is in quotes and parentheses; empty: none has begun. */
  #plain = '';
  #parentheses = 0;
  /** Depth of `BEGIN` and `CASE` in the body of a routine, whose statements end with semicolons of their own. */
  #bodies = 0;
  #comments = 0;
  /** Number of backslashes just before, within a text. */
  #backslashes = 0;
  #isSkipping = false;
  /** A text with escapes has ended, and only blanks and comments came since: another one would go on with it. */
  #isAfterEscaped = false;
  #tag = '';
  /** How much of the end of a dollar quote was seen. */
  #seen = 0;
  #command = '';
  #commandLine = 1;
  /** The line of data, as far as it could be the end. */
  #dataHead = '';
  #out = Buffer.allocUnsafe(256 * 1024);
  #length = 0;
  /** Where in `#out` the statement begins; -1: it is passed on as it comes. */
  #start = -1;

  constructor(isRestricted: boolean) {
    this.#isRestricted = isRestricted;
  }

  /** What may be passed on once this has come. */
  read(chunk: Uint8Array): Uint8Array {
    if (chunk.includes(0)) throw this.#fault('and what follows have a byte 0, which no script has');
    this.#room(chunk.length);
    let at = 0;
    while (at < chunk.length) {
      if (this.#mode === 'data') at = this.#data(chunk, at);
      else if (this.#mode === 'quoted') at = this.#quoted(chunk, at);
      else this.#one(chunk[at++] ?? 0);
    }
    if (this.#start !== -1 && this.#length - this.#start > mostHeldBytes) this.#start = -1;
    const passed = this.#start === -1 ? this.#length : this.#start;
    const given = Buffer.from(this.#out.subarray(0, passed));
    this.#out.copyWithin(0, passed, this.#length);
    this.#length -= passed;
    if (this.#start !== -1) this.#start = 0;
    return given;
  }

  /**
   * What is left at the end, with the semicolon of a last statement that has none.
   *
   * @throws DumpFault if the script ends within something
   */
  end(): Uint8Array {
    if (this.#mode === 'command') this.#endCommand();
    const isLastLine = this.#mode === 'data' && /^\\\.\r?$/.test(this.#dataHead);
    if (isLastLine || this.#mode === 'line-comment') this.#mode = 'plain';
    if (this.#mode === 'plain' && this.#plain !== '') {
      this.#plainByte(newline);
      this.#plainByte(semicolon);
    }
    const within = this.#mode === 'plain' ? this.#plain !== '' && 'a statement' : withinWords[this.#mode];
    if (within !== false) throw this.#fault(`is the last one, and within ${within}: the dump is cut`);
    return this.#out.subarray(0, this.#length);
  }

  #one(one: number): void {
    if (one === newline) this.#line += 1;
    switch (this.#mode) {
      case 'line-comment':
        this.#pass(one);
        if (one === newline) this.#mode = 'plain';
        return;
      case 'block-comment':
        return this.#blockComment(one);
      case 'escaped':
        return this.#escaped(one);
      case 'name':
        this.#pass(one);
        if (one === double) this.#mode = 'plain';
        return;
      case 'tag':
        return this.#readTag(one);
      case 'dollar':
        return this.#dollar(one);
      case 'command':
        if (one === newline) this.#endCommand();
        else this.#command += String.fromCharCode(one);
        if (this.#command.length > mostLineBytes) throw this.#refusedCommand();
        return;
      case 'pending':
        if (!isBlank(one)) throw this.#fault('has more behind a COPY: begin its data in the next line');
        this.#pass(one);
        if (one === newline) [this.#mode, this.#dataHead] = ['data', ''];
        return;
      default:
        return this.#plainByte(one);
    }
  }

  #plainByte(one: number): void {
    if (isInWord(one) && (one !== dollar || this.#wordBegin !== 0)) {
      if (this.#wordBegin === 0) [this.#wordBegin, this.#word] = [one, ''];
      if (this.#word.length < 16) this.#word += String.fromCharCode(one);
      return this.#also(one);
    }
    if (one === single) return this.#beginText(one);
    this.#endWord();
    switch (one) {
      case backslash:
        [this.#mode, this.#command, this.#before] = ['command', '\\', 0];
        this.#commandLine = this.#line;
        return;
      case double:
        return this.#enter('name', one, '?');
      case dollar:
        this.#tag = '';
        return this.#enter('tag', one, '?');
      case minus:
        if (this.#before === minus) return this.#enter('line-comment', one, ' ');
        break;
      case star:
        if (this.#before !== slash) break;
        this.#comments = 1;
        return this.#enter('block-comment', one, ' ');
      case open:
        this.#parentheses += 1;
        break;
      case close:
        this.#parentheses = Math.max(0, this.#parentheses - 1);
        break;
      case semicolon:
        if (this.#parentheses > 0 || this.#bodies > 0) break;
        this.#also(one);
        return this.#endStatement();
      default:
    }
    this.#also(one);
  }

  /** A byte outside of all quotes and comments. */
  #also(one: number): void {
    if (!isBlank(one)) {
      // a comment has begun with the first of two bytes
      if (one !== minus && one !== slash) this.#isAfterEscaped = false;
      if (this.#plain === '' && this.#start === -1) this.#start = this.#length;
    }
    this.#pass(one);
    this.#before = one;
    const isOutside = this.#parentheses === 0 || (this.#parentheses === 1 && one === open);
    if (isOutside && (this.#plain !== '' || !isBlank(one))) this.#note(String.fromCharCode(one));
  }

  #note(text: string): void {
    if (this.#plain.length < mostPlainCharacters) this.#plain += text;
    else if (isCopy.test(this.#plain)) throw this.#fault('is of a COPY that is too long');
  }

  /** Begins what has an end of its own, which stands for `sign` in the statement. */
  #enter(mode: Mode, one: number, sign: '?' | ' '): void {
    const isComment = sign === ' ';
    if (!isComment) {
      this.#isAfterEscaped = false;
      if (this.#plain === '' && this.#start === -1) this.#start = this.#length;
    }
    if (this.#parentheses === 0) {
      if (!isComment) this.#note(sign);
      // the first byte of a comment was taken for one of the statement
      else this.#plain = this.#plain.slice(0, -1) === '' ? '' : `${this.#plain.slice(0, -1)} `;
    }
    if (isComment && this.#plain === '') this.#start = -1;
    this.#pass(one);
    [this.#mode, this.#before] = [mode, 0];
  }

  #beginText(one: number): void {
    if (this.#isAfterEscaped) throw this.#fault('has a text with escapes that goes on in another one');
    const isByE = (this.#before | 0x20) === 0x65 && this.#wordBegin !== 0;
    if (isByE && (isDigit(this.#wordBegin) || this.#wordBegin === dollar))
      throw this.#fault('has a text just behind a number');
    const mode = isByE && this.#word.length === 1 ? 'escaped' : 'quoted';
    this.#endWord();
    [this.#backslashes, this.#isSkipping] = [0, false];
    this.#enter(mode, one, '?');
  }

  #endWord(): void {
    if (this.#wordBegin === 0) return;
    const word = this.#word.toLowerCase();
    this.#wordBegin = 0;
    if (this.#parentheses > 0 || (word !== 'begin' && word !== 'case' && word !== 'end')) return;
    if (!makesRoutine.test(this.#plain)) return;
    if (word === 'end') this.#bodies = Math.max(0, this.#bodies - 1);
    else if (word === 'begin' || this.#bodies > 0) this.#bodies += 1;
  }

  #endStatement(): void {
    const text = this.#plain.trimEnd();
    const isHeld = this.#start !== -1 && this.#length - this.#start <= mostHeldBytes;
    if (isHeld && leftOut.some((it) => it.test(text))) this.#length = this.#start;
    if (beginsData.test(text)) this.#mode = 'pending';
    else if (isCopy.test(text))
      throw this.#fault('has a COPY other than FROM STDIN, which no import carries out: take it out of the dump');
    [this.#plain, this.#start, this.#before] = ['', -1, 0];
  }

  #blockComment(one: number): void {
    this.#pass(one);
    const isBegin = this.#before === slash && one === star;
    const isEnd = this.#before === star && one === slash;
    this.#before = isBegin || isEnd ? 0 : one;
    if (isBegin) this.#comments += 1;
    if (isEnd) this.#comments -= 1;
    if (this.#comments === 0) this.#mode = 'plain';
  }

  /** A text in which a backslash is one, up to its end or that of the chunk. */
  #quoted(chunk: Uint8Array, from: number): number {
    const found = chunk.indexOf(single, from);
    const to = found === -1 ? chunk.length : found;
    for (let at = from; at < to; at += 1) {
      const one = chunk[at];
      if (one === newline) this.#line += 1;
      this.#backslashes = one === backslash ? this.#backslashes + 1 : 0;
    }
    this.#passAll(chunk, from, to);
    if (found === -1) return to;
    // under another setting of the server it would not end here
    if (!this.#isRestricted && this.#backslashes % 2 === 1)
      throw this.#fault(
        'has a text that ends with a backslash, which the psql of this database could take for another end: give the database a newer image, or use a dump in the custom format',
      );
    this.#backslashes = 0;
    this.#pass(single);
    this.#mode = 'plain';
    return to + 1;
  }

  #escaped(one: number): void {
    this.#pass(one);
    if (this.#isSkipping) this.#isSkipping = false;
    else if (one === backslash) {
      // in encodings of some clients it is the second half of a letter
      if (this.#before >= 0x80 && !this.#isRestricted)
        throw this.#fault('has a backslash behind a letter beyond ASCII: use a dump in the custom format');
      this.#isSkipping = true;
    } else if (one === single) [this.#mode, this.#isAfterEscaped] = ['plain', true];
    this.#before = this.#mode === 'plain' ? 0 : one;
  }

  #readTag(one: number): void {
    if (one === dollar) {
      this.#pass(one);
      [this.#mode, this.#seen] = ['dollar', 0];
      return;
    }
    if (this.#tag === '' && isDigit(one)) {
      [this.#mode, this.#wordBegin, this.#word] = ['plain', dollar, '$'];
      return this.#also(one);
    }
    if (!isInWord(one) || this.#tag.length >= mostTagBytes || (this.#tag === '' && isDigit(one)))
      throw this.#fault('has a $ that begins no text');
    this.#tag += String.fromCharCode(one);
    this.#pass(one);
  }

  #dollar(one: number): void {
    this.#pass(one);
    const wanted = `$${this.#tag}$`;
    if (wanted.charCodeAt(this.#seen) === one) this.#seen += 1;
    else this.#seen = one === dollar ? 1 : 0;
    if (this.#seen === wanted.length) [this.#mode, this.#before] = ['plain', 0];
  }

  #endCommand(): void {
    if (!restriction.test(this.#command)) throw this.#refusedCommand();
    this.#pass(newline);
    this.#mode = 'plain';
  }

  #refusedCommand(): DumpFault {
    const [word = ''] = /^\S+/.exec(this.#command) ?? [];
    const remedy = /^\\c(?:onnect)?$/.test(word)
      ? 'make the dump of one database, without --create'
      : 'take it out of the dump';
    return new DumpFault(
      `Line ${this.#commandLine} has ${word.slice(0, 40)}, a command of psql that no import carries out: ${remedy}`,
    );
  }

  /** Lines of data, up to their end or that of the chunk. */
  #data(chunk: Uint8Array, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const found = chunk.indexOf(newline, at);
      const to = found === -1 ? chunk.length : found + 1;
      if (this.#dataHead.length < 5) this.#dataHead += String.fromCharCode(...chunk.subarray(at, Math.min(to, at + 5)));
      at = to;
      if (found === -1) break;
      this.#line += 1;
      const isEnd = this.#dataHead === '\\.\n' || this.#dataHead === '\\.\r\n';
      this.#dataHead = '';
      if (!isEnd) continue;
      this.#mode = 'plain';
      break;
    }
    this.#passAll(chunk, from, at);
    return at;
  }

  #pass(one: number): void {
    if (this.#length === this.#out.length) this.#room(1);
    this.#out[this.#length] = one;
    this.#length += 1;
  }

  #passAll(chunk: Uint8Array, from: number, to: number): void {
    this.#room(to - from);
    this.#out.set(chunk.subarray(from, to), this.#length);
    this.#length += to - from;
  }

  /** Makes room for so many bytes. At most a chunk and what is held are there. */
  #room(bytes: number): void {
    if (this.#out.length - this.#length >= bytes) return;
    const larger = Buffer.allocUnsafe((this.#length + bytes) * 2);
    this.#out.copy(larger, 0, 0, this.#length);
    this.#out = larger;
  }

  #fault(what: string): DumpFault {
    return new DumpFault(`Line ${this.#line} ${what}`);
  }
}

function isBlank(one: number): boolean {
  return one === 0x20 || (one >= 0x09 && one <= 0x0d);
}

function isDigit(one: number): boolean {
  return one >= 0x30 && one <= 0x39;
}

/** Whether it can be in a name without quotes. */
function isInWord(one: number): boolean {
  const letter = one | 0x20;
  return (letter >= 0x61 && letter <= 0x7a) || isDigit(one) || one === 0x5f || one === dollar || one >= 0x80;
}
