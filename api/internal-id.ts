import type { Random } from './random.ts';

/** Slug of a name and 6 hex digits: a DNS label that stays when the name changes. */
export function newInternalId(name: string, random: Random): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  const start = /^[a-z]/.test(slug) ? slug : `a${slug === '' ? 'pp' : `-${slug}`}`;
  return `${start}-${random.bytes(3).toString('hex')}`;
}
