/** The name of a workload for containers and DNS: a slug of its name at creation, and 6 hex digits for uniqueness. */
export function internalId(name: string, hex: string): string {
  return `${slugOf(name)}-${hex}`;
}

/** A DNS label of at most 42 characters that resembles the name. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  return /^[a-z]/.test(slug) ? slug : `a${slug === '' ? 'pp' : `-${slug}`}`;
}

/** Of the instance beside the one that serves: it has another volume, and a name of its own in the network. */
export const sideService = 'restore';

/** Of the instance that a backup is tried in: it never has the place of one that somebody looks at. */
export const drillService = 'drill';

/** Of what its clients share connections by. */
export const poolerService = 'pooler';

/** The name by which its environment reaches an instance beside the one that serves a database. */
export function sideHost(internalId: string, service = sideService): string {
  return `${internalId}-${service}`;
}
