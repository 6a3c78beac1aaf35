import { isIP } from 'node:net';

/** The real hosts of registries that are known by another name. */
const aliases: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };

/** `HOST` or `HOST:PORT` at which a registry answers. */
export function placeOfRegistry(registry: string): string {
  return aliases[registry] ?? registry;
}

/** True if the list has the registry by name, or by a pattern `*.HOST`. */
export function isListed(list: readonly string[], registry: string): boolean {
  return list.some(
    (one) =>
      one === registry ||
      (one.startsWith('*.') && isIP(hostOf(registry).host) === 0 && registry.endsWith(one.slice(1))),
  );
}

/** The parts of `HOST` or `HOST:PORT`; an address of IPv6 is without its brackets. */
export function hostOf(registry: string): { host: string; port: number | undefined } {
  const match = /^(?:\[(?<six>.*)\]|(?<name>[^:]*))(?::(?<port>\d+))?$/.exec(registry);
  const port = match?.groups?.['port'];
  return {
    host: match?.groups?.['six'] ?? match?.groups?.['name'] ?? registry,
    port: port === undefined ? undefined : Number(port),
  };
}

/** True for names of one domain, as `auth.example.com` and `registry.example.com`. False for addresses and bare names. */
export function isSibling(host: string, other: string): boolean {
  const [a, b] = [host, other].map((name) => (isIP(name) === 0 ? name.split('.').slice(-2).join('.') : ''));
  return a === b && a !== undefined && a.includes('.');
}
