import { mkdir, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Mount } from '../runtime/runtime.ts';
import { writeAtomically } from '../disk/atomic-file.ts';
import type { AgentPorts, HostFolder } from './config.ts';
import { hostFolders } from './config.ts';
import { instanceName } from './name-server.ts';
import { authorityFile, inside, sockets } from './places.ts';
import type { ProxySockets } from './proxy.ts';

/** The certificates of at most so many hosts are kept for so long after the hosts left. */
const mostLeft = 100;
const keptForMs = 86_400_000;
const leftFile = 'left.json';
const Left = z.array(z.tuple([z.string(), z.number()]));

/** The folder of the proxy in the agent's data directory: its configuration, certificates and log. */
export class ProxyFolder {
  readonly #path: string;
  #names = '';
  #resolvers = '';

  constructor(path: string) {
    this.#path = path;
  }

  get sockets(): ProxySockets {
    return { admin: join(this.#path, 'run', sockets.admin), names: join(this.#path, 'run', sockets.names) };
  }

  /** Where its logs are. */
  get logs(): string {
    return join(this.#path, 'log');
  }

  /** What is mounted into the container of the proxy. The folder must be made. */
  get mounts(): Mount[] {
    return [
      { type: 'folder', source: this.#path, path: inside },
      { type: 'file', source: join(this.#path, 'names'), path: '/etc/hosts' },
      { type: 'file', source: join(this.#path, 'resolvers'), path: '/etc/resolv.conf' },
    ];
  }

  /** Idempotent. */
  async make(): Promise<void> {
    for (const name of ['run', 'log', 'storage', ...hostFolders.map((it) => `hosts/${it}`)])
      await mkdir(join(this.#path, name), { recursive: true, mode: 0o700 });
    for (const name of ['names', 'resolvers']) await writeFile(join(this.#path, name), '', { flag: 'a', mode: 0o644 });
    await this.#setResolvers();
  }

  /** The configuration that the proxy starts with. */
  async bootConfig(): Promise<unknown> {
    return parsed(await readFile(join(this.#path, 'caddy.json'), 'utf8').catch(() => ''));
  }

  async setBootConfig(config: unknown): Promise<void> {
    await writeAtomically(join(this.#path, 'caddy.json'), JSON.stringify(config));
  }

  /** Writes a configuration to be examined. Resolves with its path in the container. */
  async setTrial(config: unknown): Promise<string> {
    await writeAtomically(join(this.#path, 'trial.json'), JSON.stringify(config));
    return join(inside, 'trial.json');
  }

  async ports(): Promise<AgentPorts | undefined> {
    const known = parsed(await readFile(join(this.#path, 'ports.json'), 'utf8').catch(() => ''));
    if (typeof known !== 'object' || known === null || !('names' in known) || !('asks' in known)) return undefined;
    const { names, asks } = known;
    return isPort(names) && isPort(asks) ? { names, asks } : undefined;
  }

  async setPorts(ports: AgentPorts): Promise<void> {
    await writeAtomically(join(this.#path, 'ports.json'), JSON.stringify(ports));
  }

  /** Makes the files by which the proxy knows the hosts. */
  async setHosts(hosts: Readonly<Record<HostFolder, ReadonlySet<string>>>): Promise<void> {
    for (const folder of hostFolders) {
      const path = join(this.#path, 'hosts', folder);
      const present = new Set(await readdir(path));
      for (const host of hosts[folder]) if (!present.has(host)) await writeFile(join(path, host), '');
      for (const host of present) if (!hosts[folder].has(host)) await rm(join(path, host), { force: true });
    }
  }

  /** Lets the proxy find the addresses of its instances also while the agent does not run. */
  async setNames(addresses: readonly string[]): Promise<void> {
    const lines = [...new Set(addresses)].toSorted().map((address) => `${address} ${instanceName(address)}\n`);
    const text = ['127.0.0.1 localhost\n', ...lines].join('');
    if (text === this.#names) return;
    await this.#overwrite('names', text);
    this.#names = text;
  }

  /**
   * Of those of the machine the first, which gets one question, and one second for its answer: the questions for the agent
   * are asked by the same rules, while all other requests wait for the answer.
   */
  async #setResolvers(): Promise<void> {
    const ofMachine = await readFile('/etc/resolv.conf', 'utf8').catch(() => '');
    const [first = ''] = ofMachine.match(/^nameserver\s.*$/m) ?? [];
    const text = `${first}\noptions timeout:1 attempts:1 ndots:1\n`.trimStart();
    if (text === this.#resolvers) return;
    await this.#overwrite('resolvers', text);
    this.#resolvers = text;
  }

  /** In place: the container has this very file. */
  async #overwrite(name: string, text: string): Promise<void> {
    await using file = await open(join(this.#path, name), 'r+');
    await file.write(text, 0);
    await file.truncate(Buffer.byteLength(text));
  }

  /**
   * Removes the certificates of all other hosts, a day after they left: a domain that moves to another application needs
   * no new one, of which authorities give few. The newest {@link mostLeft} are kept for that day, and of the `forgotten`
   * none.
   */
  async keepCertificates(
    hosts: ReadonlySet<string>,
    now: number,
    forgotten: ReadonlySet<string> = new Set(),
  ): Promise<void> {
    const root = join(this.#path, 'storage/certificates');
    const present = new Map<string, string[]>();
    for (const issuer of await readdir(root).catch(() => []))
      for (const host of await readdir(join(root, issuer)).catch(() => []))
        present.set(host, [...(present.get(host) ?? []), join(root, issuer, host)]);
    const known = await this.#leftHosts();
    const left = [...present.keys()]
      .filter((host) => !hosts.has(host))
      .map((host): [string, number] => [host, Math.min(known.get(host) ?? now, now)])
      .toSorted(([, a], [, b]) => b - a);
    const kept = left
      .filter(([host]) => !forgotten.has(host))
      .filter(([, since], n) => n < mostLeft && now - since < keptForMs);
    const keeps = new Set(kept.map(([host]) => host));
    for (const [host] of left)
      if (!keeps.has(host))
        for (const path of [...(present.get(host) ?? []), ...(await this.#staplesOf(host))])
          await rm(path, { recursive: true, force: true });
    if (JSON.stringify(kept) !== JSON.stringify([...known]))
      await writeAtomically(join(this.#path, leftFile), JSON.stringify(kept));
  }

  /** What authorities said of the certificates of a host. */
  async #staplesOf(host: string): Promise<string[]> {
    const root = join(this.#path, 'storage/ocsp');
    const names = await readdir(root).catch(() => []);
    return names.filter((name) => name.startsWith(`${host}-`)).map((name) => join(root, name));
  }

  /** When the hosts without a route left whose certificates are kept, in milliseconds since 1970. */
  async #leftHosts(): Promise<Map<string, number>> {
    const text = await readFile(join(this.#path, leftFile), 'utf8').catch(() => '[]');
    return new Map(Left.safeParse(parsed(text)).data);
  }

  /** Keeps the certificates of an authority's own server. */
  async setAuthority(pem: string): Promise<void> {
    await writeAtomically(join(this.#path, authorityFile(pem)), pem, 0o644);
  }
}

function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65_536;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown; // its readers check it
  } catch {
    return undefined; // there is none, or it was written by half
  }
}
