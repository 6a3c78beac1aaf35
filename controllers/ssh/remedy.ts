import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { shellWord } from '../../store/shell-word.ts';

/** A remedy whose commands name `SERVER` and `KEY`, with the names of this server and of its SSH key in their place. */
export function remedyFor(
  remedy: string,
  { desired }: ReadonlyResource<'server'>,
  view: Pick<TenantView, 'get'>,
): string {
  const key = desired.ssh_key_id === undefined ? undefined : view.get('ssh_key', desired.ssh_key_id);
  const names = new Map([
    ['SERVER', desired.name],
    ['KEY', key?.desired.name],
  ]);
  return remedy.replaceAll(/\b(SERVER|KEY)\b/g, (word) => {
    const name = names.get(word);
    return name === undefined ? word : shellWord(name);
  });
}

/** The server whose agent is on the machine, in words, if it is another one than `server`. */
export function otherServerOn(
  { agent_server: id }: { agent_server?: string | undefined },
  server: ReadonlyResource<'server'>,
  view: Pick<TenantView, 'get'>,
): string | undefined {
  if (id === undefined || id === server.meta.id) return undefined;
  const name = view.get('server', id)?.desired.name;
  return name === undefined ? id : `${name} (${id})`;
}
