/**
 * The form in which names are compared: NFKC, and the full case folding of Unicode, so that `Straße` equals `STRASSE`.
 * Folding twice changes nothing.
 */
export function foldName(name: string): string {
  const isAscii = Buffer.byteLength(name) === name.length;
  if (isAscii) return name.toLowerCase();
  return folded(folded(name.normalize('NFD')).normalize('NFKC')).normalize('NFKC');
}

/**
 * Folds each character by itself, since a final sigma exists in whole words only. Upper case expands a character that
 * has no capital of its own. The dotless i stays: its capital is that of another letter.
 */
function folded(text: string): string {
  return Array.from(text, (char) => (char === '\u0131' ? char : char.toLowerCase().toUpperCase().toLowerCase())).join(
    '',
  );
}
