import { readFile } from 'node:fs/promises';

/** Ports of this machine, in its network namespace, at which a program listens over TCP. */
export async function listeningPorts(): Promise<Set<number>> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')),
  );
  return new Set(tables.flatMap(parseListeners));
}

/** The kernel's number of the state in which a socket listens. */
const listening = '0A';

/** Reads /proc/net/tcp or /proc/net/tcp6. */
function parseListeners(text: string): number[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [, local = '', , state] = line.trim().split(/\s+/);
      const port = Number.parseInt(local.split(':').at(-1) ?? '', 16);
      return state === listening && Number.isInteger(port) ? [port] : [];
    });
}
