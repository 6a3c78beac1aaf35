const mask = '********';
/** A shorter line of a secret is a word that may be in any output. */
const leastChars = 6;
/** Of so many lines of secrets, the encoded forms are hidden as well: each form is looked for in each line of output. */
const maxEncoded = 200;
/** Columns at which programs cut base64 into lines. */
const columns = [76, 64];

/** Replaces the secrets of a build in what its programs wrote. */
export interface Hiding {
  hide: (text: string) => string;
  /** Length of the longest text that is replaced: a text that is cut before may show a part of one. */
  readonly longest: number;
}

/**
 * Hides each line of the secrets, as it is, in base64, and encoded for addresses. In base64 it is found also within a
 * longer text, such as `USER:SECRET`. Other forms are not known: a build that wants to show its secrets can.
 */
export function hiding(secrets: readonly string[]): Hiding {
  const lines = secrets
    .flatMap((secret) => secret.split(/\r?\n/))
    .map((part) => part.trim())
    .filter((part) => part.length >= leastChars);
  const forms = [
    ...lines,
    ...lines.slice(0, maxEncoded).flatMap((part) => [...encoded(part), ...inAddresses(part)]),
    ...secrets.filter((secret) => secret.length >= leastChars).flatMap(wrapped),
  ];
  const hidden = [...new Set(forms)].toSorted((a, b) => b.length - a.length);
  return {
    hide: (text) => hidden.reduce((clean, part) => (clean.includes(part) ? clean.replaceAll(part, mask) : clean), text),
    longest: hidden[0]?.length ?? 0,
  };
}

/** The base64 of a text with the end that it has alone, and what is in that of any text around it. */
function encoded(text: string): string[] {
  const bytes = Buffer.from(text);
  const alone = [bytes, Buffer.from(`${text}\n`)].map((it) => it.toString('base64'));
  const within = [0, 1, 2].map((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Only characters all of whose six bits are of the text.
    return whole.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  return [...alone, ...within].flatMap((form) => [form, forAddresses(form)]);
}

/** The lines of the base64 of a text that is longer than one. */
function wrapped(text: string): string[] {
  return [text, `${text}\n`].flatMap((it) => {
    const whole = Buffer.from(it).toString('base64');
    return columns
      .filter((width) => whole.length > width)
      .flatMap((width) =>
        Array.from({ length: Math.ceil(whole.length / width) }, (_, n) => whole.slice(n * width, (n + 1) * width)),
      )
      .filter((line) => line.length >= leastChars);
  });
}

function forAddresses(base64: string): string {
  return base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function inAddresses(text: string): string[] {
  const strict = encodeURIComponent(text.toWellFormed());
  const form = new URLSearchParams([['', text]]).toString().slice(1);
  return [strict, form].flatMap((it) => [it, it.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())]);
}
