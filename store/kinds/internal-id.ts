/** The name of a workload for containers and DNS: a slug of its name at creation, and 6 hex digits for uniqueness. */
export function internalId(name: string, hex: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  const start = /^[a-z]/.test(slug) ? slug : `a${slug === '' ? 'pp' : `-${slug}`}`;
  return `${start}-${hex}`;
}
