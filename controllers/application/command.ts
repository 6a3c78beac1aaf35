/**
 * Splits a start command into words. Single and double quotes group, a backslash takes the next character literally
 * outside single quotes; nothing is expanded, since no shell will see it.
 *
 * @throws RangeError on an open quote or a trailing backslash.
 */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i);
    if (char === '\\' && quote !== "'") {
      i++;
      if (i === text.length) throw new RangeError('Start command must not end with a backslash');
      word = (word ?? '') + text.charAt(i);
    } else if (quote !== undefined) {
      if (char === quote) quote = undefined;
      else word = (word ?? '') + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? '') + char;
    }
  }
  if (quote !== undefined) throw new RangeError(`Start command has an open quote: ${quote}`);
  if (word !== undefined) words.push(word);
  return words;
}
