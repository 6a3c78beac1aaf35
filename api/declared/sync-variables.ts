import type { CommitToApply } from '../../store/declared/commit.ts';
import type { SealPlace } from '../../store/seal.ts';
import type { Services } from '../endpoint/context.ts';

/**
 * What stands in the files of a sync for `${vars.NAME}`; a `$` before it leaves it as it is. A name ends at the next `$` or
 * brace, so that a text is read once however often it begins one.
 */
const mention = /\$?\$\{vars\.([^{}$]*)\}/g;

const maxNameChars = 64;

/** Most characters of a text with its values. */
const maxChars = 256 * 1024;

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
  let chars = text.length;
  // what is too long is not built
  for (const [written, name = ''] of text.matchAll(mention)) {
    if (written.startsWith('$$')) continue;
    const value = values.get(name);
    if (value === undefined) return { fault: faultOfName(name) };
    chars += value.length - written.length;
    if (chars > maxChars) return { fault: `is longer than ${maxChars} characters with the variables of the sync` };
  }
  const put = (written: string, name: string): string =>
    written.startsWith('$$') ? written : (values.get(name) ?? '');
  return { text: text.replace(mention, put), blank: [] };
}

function faultOfName(name: string): string {
  const uses = `uses \${vars.${name.slice(0, maxNameChars)}`;
  return name.length > maxNameChars
    ? `${uses}…}, whose name is longer than ${maxNameChars} characters`
    : `${uses}}, which the sync has no variable for: add it to its variables`;
}
