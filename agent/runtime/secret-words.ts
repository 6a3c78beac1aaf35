import { withheld } from '../../agent-protocol/survey.ts';

/** What a name has in it if its value is a secret. */
const telling = /pass|pwd|secret|token|credential/;
/** What is a secret as a part of a name only: a `monkey` is none. */
const tellingParts = new Set(['auth', 'authorization', 'bearer', 'key', 'apikey', 'accesskey', 'privatekey']);
/** A name that ends so is that of a file with a secret in it. */
const ofFiles = new Set(['file', 'path', 'dir', 'folder']);
/** Schemes of a header `Authorization`: the secret follows. */
const schemes = new Set(['basic', 'bearer', 'digest', 'token']);
/** Clients whose option `-p` has the password behind it, without a space. */
const attachesPassword = /^(?:mysql|mariadb|sshpass|mongo)/;
/** Options of programs that take a password, or `USER:PASSWORD`, and whose names do not tell. */
const options = [
  { of: /^(?:curl|wget|https?)$/, name: /^(?:-u|--user|--proxy-user|-U)$/, takes: 'user' },
  { of: /^redis-cli$/, name: /^-a$/, takes: 'secret' },
] as const;

const spaces = /^\s+$/;
/** Each branch begins with characters that no other begins with, and none can match in two ways: it takes linear time. */
const pieces = /"[^"]*"|'[^']*'|\s+|[;|&]+|[^\s;|&"']+|["']/g;

/**
 * The words of a command, with {@link withheld} in place of what looks like a secret: the value of an option, a header or
 * a variable whose name says so, and what identifies the user of an address. What refers to a variable is no secret.
 * A guess, on the side of withholding: a secret that nothing tells is shown.
 */
export function withoutSecrets(words: readonly string[]): string[] {
  const reader = new Reader();
  return words.map((word) => {
    reader.isText = /\s/.test(word);
    const shown = reader.text(word);
    reader.word();
    return shown;
  });
}

/** Reads the pieces of a command from the first to the last. */
class Reader {
  /** The word is a text of several, such as a script, in which options may have no dash. */
  isText = false;
  /** What the next piece is. */
  #next: 'secret' | 'user' | undefined;
  /** A `=` or a `:` stands between the name and the next piece, which may begin with a dash then. */
  #isNamed = false;
  readonly #programs = new Set<string>();

  /** Ends a word: what `NAME=` is set to is not in the next one. */
  word(): void {
    if (this.#isNamed) this.#next = undefined;
    this.#isNamed = false;
  }

  text(text: string): string {
    return [...text.matchAll(pieces)].map(([piece]) => this.#piece(piece)).join('');
  }

  #piece(piece: string): string {
    if (spaces.test(piece)) return piece;
    if (/^[;|&]/.test(piece)) {
      this.#next = undefined;
      return piece;
    }
    const quote = piece.length > 1 && /^["']/.test(piece) ? piece.charAt(0) : '';
    const inner = quote === '' ? piece : piece.slice(1, -1);
    if (this.#next !== undefined) {
      const shown = this.#value(inner);
      if (shown !== undefined) return shown === withheld ? withheld : `${quote}${shown}${quote}`;
    }
    if (quote === '') return this.#name(piece);
    const shown = /\s/.test(inner) ? this.text(inner) : this.#name(inner);
    if (/\s/.test(inner)) this.#next = undefined;
    // as in JSON, its value is behind it
    else if (isTelling(inner)) this.#next = 'secret';
    return `${quote}${shown}${quote}`;
  }

  /** What stands after a name that tells; `undefined` if it is no value. */
  #value(piece: string): string | undefined {
    if (/^[=:]$/.test(piece)) {
      this.#isNamed = true;
      return piece;
    }
    if (schemes.has(piece.toLowerCase())) return piece;
    const isUser = this.#next === 'user';
    const isNamed = this.#isNamed;
    if (!isNamed && piece.startsWith('-')) {
      this.#next = undefined;
      return undefined;
    }
    this.#next = undefined;
    this.#isNamed = false;
    if (isReference(piece)) return piece;
    if (!isUser) return withheld;
    const [user = '', password] = piece.split(/:(.*)/s);
    return password === undefined || isReference(password) ? piece : `${user}:${withheld}`;
  }

  #name(piece: string): string {
    this.#programs.add(piece.slice(piece.lastIndexOf('/') + 1));
    if (piece.includes('://')) return this.#assigned(withoutUserOf(piece));
    if (piece.startsWith('-p') && piece.length > 2 && this.#runs(attachesPassword))
      return `-p${shownOf(piece.slice(2))}`;
    const option = options.find(({ of, name }) => name.test(piece) && this.#runs(of));
    if (option === undefined) return this.#assigned(piece);
    this.#next = option.takes;
    return piece;
  }

  /** `NAME=VALUE`, also behind another such name: `--env=PASSWORD=x`. A name alone has its value behind it. */
  #assigned(piece: string): string {
    let from = 0;
    for (const { index } of piece.matchAll(/[=:]/g)) {
      if (isTelling(piece.slice(from, index))) {
        const value = piece.slice(index + 1);
        const isBehind = value === '' || schemes.has(value.toLowerCase());
        if (isBehind) {
          this.#next = 'secret';
          this.#isNamed = true;
          return piece;
        }
        return `${piece.slice(0, index + 1)}${shownOf(value)}`;
      }
      from = index + 1;
    }
    if (from === 0 && (this.isText || piece.startsWith('-')) && isTelling(piece)) this.#next = 'secret';
    return piece;
  }

  #runs(program: RegExp): boolean {
    return [...this.#programs].some((one) => program.test(one));
  }
}

function isTelling(name: string): boolean {
  if (!/^[\w.-]+$/.test(name)) return false;
  const parts = name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[-_.]/);
  if (ofFiles.has(parts.at(-1) ?? '')) return false;
  return telling.test(name.toLowerCase()) || parts.some((part) => tellingParts.has(part));
}

function shownOf(value: string): string {
  return isReference(value) ? value : withheld;
}

function isReference(value: string): boolean {
  return /^["']?\$[\w{]/.test(value);
}

/**
 * An address without its password. A password may have `@` and `/` in it: it ends at the last `@`. A user without a
 * password is a token where the address is one of the web.
 */
function withoutUserOf(piece: string): string {
  const start = piece.indexOf('://') + 3;
  const at = piece.lastIndexOf('@');
  if (at < start) return piece;
  const [user = '', password] = piece.slice(start, at).split(/:(.*)/s);
  const scheme = piece.slice(0, start - 3).toLowerCase();
  const rest = piece.slice(at);
  if (password === undefined) {
    const isToken = /https?$/.test(scheme) && !user.includes('/') && user !== 'git';
    return isToken && !isReference(user) ? `${piece.slice(0, start)}${withheld}${rest}` : piece;
  }
  // a port, and an @ in the path
  if (user.includes('/') || /^\d{1,5}\//.test(password) || isReference(password)) return piece;
  return `${piece.slice(0, start)}${user}:${withheld}${rest}`;
}
