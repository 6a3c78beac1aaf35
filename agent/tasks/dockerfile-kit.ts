import { unreadable, type Instruction } from './dockerfile-lines.ts';

/** The first major version of the engine whose BuildKit knows a flag. */
const flagsSince: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  RUN: { mount: 20, network: 23 },
  COPY: { from: 20, chown: 20, chmod: 20, link: 23, parents: 28, exclude: 28 },
  ADD: { chown: 20, chmod: 20, link: 23, exclude: 28 },
};
/** Keys of a mount, by their other names. */
const aliases: Readonly<Record<string, string>> = {
  src: 'source',
  dst: 'target',
  destination: 'target',
  ro: 'readonly',
  rw: 'readwrite',
};
const keysOf: Readonly<Record<string, readonly string[]>> = {
  bind: ['type', 'from', 'source', 'target', 'readonly', 'readwrite'],
  cache: ['type', 'from', 'source', 'target', 'readonly', 'readwrite', 'id', 'sharing', 'mode', 'uid', 'gid'],
  tmpfs: ['type', 'target', 'size'],
  secret: ['type', 'source', 'target', 'id', 'required', 'mode', 'uid', 'gid', 'env'],
};

/** Refuses flags that this engine does not know, or that leave the limits of builds. @throws RuntimeFailure `invalid_source` */
export function flagsOfKit({ name, flags }: Instruction, kit: number): void {
  for (const flag of flags) {
    const [, key = '', value] = /^--([A-Za-z-]+)(?:=(.*))?$/.exec(flag) ?? [];
    const shown = `${name} ${flag.slice(0, 200)}`;
    if (name === 'RUN' && key === 'security') throw unreadable(`${shown}: the steps of a build have no further rights`);
    if (name === 'RUN' && key === 'network' && value !== 'none' && value !== 'default')
      throw unreadable(`${shown}: the steps of a build do not get into other networks`);
    const since = flagsSince[name]?.[key];
    if (since === undefined) throw unreadable(`${shown}, which is not built here`);
    if (since > kit) throw unreadable(`${shown}, which needs Docker ${since} or later: the server has ${kit}`);
  }
}

/**
 * Returns the flag of a RUN with the full reference of an image that it mounts. A secret that a step names must be
 * there, unless the flag says otherwise. @throws RuntimeFailure `invalid_source` for a mount that is not built here
 */
export function mountOf(flag: string, from: (image: string) => string): string {
  const text = /^--mount=(.*)$/.exec(flag)?.[1];
  if (text === undefined) return flag;
  const refuse = (why: string): Error => unreadable(`RUN ${flag.slice(0, 200)}: ${why}`);
  const fields = text.split(',').map((field) => {
    const [, name = '', value] = /^([A-Za-z]+)(?:=(.*))?$/.exec(field) ?? [];
    const key = name.toLowerCase();
    return { key: aliases[key] ?? key, name: key, value };
  });
  const types = fields.filter(({ key }) => key === 'type');
  const type = types.length === 0 ? 'bind' : (types.at(-1)?.value ?? '').toLowerCase();
  const allowed = keysOf[type];
  if (type === 'ssh') throw refuse('no SSH agent is given to builds. Use a build secret');
  if (allowed === undefined || types.length > 1) throw refuse('it is none of bind, cache, tmpfs and secret');
  const written = fields.map(({ key, name, value }) => {
    if (!allowed.includes(key)) throw refuse(`a mount of type ${type} has no ${key === '' ? 'such key' : key}`);
    if (key !== 'from' || value === undefined) return value === undefined ? name : `${name}=${value}`;
    if (value.includes('$') || value === '') throw refuse('its image cannot be determined');
    return `from=${from(value)}`;
  });
  const isRequired = type === 'secret' && !fields.some(({ key }) => key === 'required');
  return `--mount=${[...written, ...(isRequired ? ['required=true'] : [])].join(',')}`;
}
