/**
 * The words of a start command. Single and double quotes group, a backslash takes the next character literally outside
 * single quotes; nothing is expanded, since no shell will see it. `fault` describes what is wrong with any other text.
 */
export function parseCommand(text: string): { words: string[] } | { fault: string } {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i);
    if (char === '\\' && quote !== "'") {
      i++;
      if (i === text.length) return { fault: 'Must not end with a backslash' };
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
  if (quote !== undefined) return { fault: `Must close every quote: ${quote} is open` };
  if (word !== undefined) words.push(word);
  const [program = ''] = words;
  return program === '' ? { fault: 'Must begin with a program' } : { words };
}
