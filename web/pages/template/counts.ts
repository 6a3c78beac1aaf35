/** A number of things in words, such as `1 database` or `2 databases`. */
export function countText(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`;
}
