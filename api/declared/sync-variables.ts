import type { CommitToApply } from '../../store/declared/commit.ts';
import type { SealPlace } from '../../store/seal.ts';
import type { Services } from '../endpoint/context.ts';

/** What stands in the files of a sync for `${vars.NAME}`; a `$` before it leaves it as it is. */
const mention = /\$?\$\{vars\.([^}]*)\}/g;

export function placeOfSecret(tenant: string, sync: string, name: string): SealPlace {
  return { tenant, kind: 'sync', id: sync, path: `secrets.${name}` };
}

/** The values of a sync by their names, secrets in plain text. @throws Error if one does not open */
export function valuesOf(
  { tenant, sync: { id, variables = {}, secrets = {} } }: Pick<CommitToApply, 'tenant' | 'sync'>,
  { unsealer }: Pick<Services, 'unsealer'>,
): Map<string, string> {
  return new Map([
    ...Object.entries(variables),
    ...Object.entries(secrets).map(([name, value]): [string, string] => [
      name,
      unsealer.unseal(value, placeOfSecret(tenant, id, name)),
    ]),
  ]);
}

/** Puts values into a text of a file. It is read once: what a value holds is not looked at again. */
export function withValues(
  text: string,
  values: ReadonlyMap<string, string>,
): { text: string; blank: readonly string[] } | { fault: string } {
  const missing = new Set<string>();
  const filled = text.replace(mention, (written, name: string) => {
    if (written.startsWith('$$')) return written;
    const value = values.get(name);
    if (value === undefined) missing.add(name);
    return value ?? '';
  });
  const [first] = missing;
  return first === undefined
    ? { text: filled, blank: [] }
    : { fault: `uses \${vars.${first.slice(0, 64)}}, which the sync has no variable for: add it to its variables` };
}
