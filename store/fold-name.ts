/**
 * The form in which names are compared: NFKC, and the full case folding of Unicode, so that `Straße` is `STRASSE`. Folding
 * twice changes nothing.
 */
export function foldName(name: string): string {
  const isAscii = Buffer.byteLength(name) === name.length;
  if (isAscii) return name.toLowerCase();
  return folded(folded(name.normalize('NFD')).normalize('NFKC')).normalize('NFKC');
}

/**
 * By character, since only whole words have a final sigma. The way through the capitals expands what has no capital of
 * its own; the dotless i alone has one that is another letter's.
 */
function folded(text: string): string {
  return Array.from(text, (char) => (char === '\u0131' ? char : char.toLowerCase().toUpperCase().toLowerCase())).join(
    '',
  );
}
