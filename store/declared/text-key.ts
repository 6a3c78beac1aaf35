/** What is forced so that a declared instance follows the present text of a template that another user may change. */
export function textKeyOf(key: string): string {
  return `${key}#text`;
}
