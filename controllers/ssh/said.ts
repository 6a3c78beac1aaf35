/** Most characters of what a machine says, in a message: a line of its programs, and a fact of its own. */
export const saidChars = { line: 600, fact: 200 } as const;

/**
 * What a machine says as a part of a message: one line of printable characters, with its end cut off. A machine may send
 * anything, also what controls a terminal.
 */
export function said(text: string, most: number): string {
  // what is far beyond the bound is not looked at
  const line = text
    .slice(0, most * 4)
    .replaceAll(/[\p{C}\p{Z}]+/gu, ' ')
    .trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`;
}
