const web = /^(?:https?|ssh|git):\/\/(?:[^/@]*@)?(\[[^\]]*\]|[^/:@]+)(?::\d{1,5})?\/+(.+)$/i;
const scp = /^(?:[^/@:]+@)?(\[[^\]]*\]|[^/:@]+):(?!\/\/)\/*(.+)$/;

/**
 * A repository's address in one form for all its spellings: host and path, without protocol, user, port, `.git` and
 * case. Two repositories may share a form; what follows from a match must be harmless for the other one. Returns
 * `undefined` for a text that is not an address with a host and a path.
 */
export function repositoryAddress(url: string): string | undefined {
  if (url.length > 512) return undefined;
  const [, host, path] = web.exec(url) ?? scp.exec(url) ?? [];
  if (host === undefined || path === undefined) return undefined;
  const segments = path.split('/').filter((one) => one !== '');
  // Bitbucket Data Center has this before the path in addresses of https alone
  const [first, ...rest] = segments;
  const name = (first === 'scm' && rest.length > 1 ? rest : segments).join('/').replace(/\.git$/i, '');
  return name === '' ? undefined : `${host}/${name}`.toLowerCase();
}

/** Whether both name the same repository. */
export function isSameRepository(one: string, other: string): boolean {
  const address = repositoryAddress(one);
  return one === other || (address !== undefined && address === repositoryAddress(other));
}

/** Protocol and host of the address of a repository, the host as git credentials name it; both empty for another text. */
export function originOf(url: string): { protocol: string; host: string } {
  const [, short] = /^[A-Za-z0-9_][\w.-]*@([^:/]+):/.exec(url) ?? [];
  if (short !== undefined) return { protocol: 'ssh', host: short.toLowerCase() };
  const { protocol, hostname, port } = URL.parse(url) ?? { protocol: '', hostname: '', port: '' };
  const isUsual = port === '' || (protocol === 'ssh:' && port === '22');
  return { protocol: protocol.slice(0, -1), host: `${hostname.toLowerCase()}${isUsual ? '' : `:${port}`}` };
}
