/** A name as declarations of a template have it: lower-case letters, digits and `-`. */
export function keyOf(name: string): string {
  const key = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, 38)
    .replace(/-+$/, '');
  return /^[a-z]/.test(key) ? key : `s${key === '' ? '' : `-${key}`}`;
}
