import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Certificate, Ingress } from '../../agent-protocol/workload.ts';
import type { Clock } from '../../time/clock.ts';
import { userOfPort } from '../machine/listeners.ts';
import { programAt } from '../ports/port-problems.ts';
import type { Mount } from '../runtime/runtime.ts';
import { CertificateFailures } from './certificate-failures.ts';
import { Certificates } from './certificates.ts';
import type { AgentPorts } from './config.ts';
import { ConfigLoader, plain } from './config-loader.ts';
import type { Wanted } from './config-loader.ts';
import { hostsOf, proxyConfig } from './config.ts';
import type { Proxy, ProxySockets } from './proxy.ts';
import { ProxyFolder } from './proxy-folder.ts';
import type { PlacedRoute, RoutesOf } from './proxy-routes.ts';
import { place } from './proxy-routes.ts';
import { Traffic } from './traffic.ts';
import { Upstreams } from './upstreams.ts';

/** What became of the routes of one application. */
export type Stand =
  | { is: 'loaded'; certificates: readonly Certificate[] }
  /** Why the proxy does not take them, in its words. */
  | { is: 'refused'; why: string }
  /** The proxy gets them in a moment. */
  | { is: 'pending' }
  /** The server has no proxy, it does not run, or does not take its settings. */
  | { is: 'unavailable' };

/** Why the proxy does not do what its settings say. */
export interface ProxyProblem {
  code: 'proxy_refused' & FailureCode;
  message: string;
}

interface Deps {
  folder: string;
  /** Where the traffic of applications is kept. */
  trafficFolder: string;
  openProxy: (sockets: ProxySockets) => Proxy;
  /**
   * Runs a program in the container of that assignment. Resolves with what it wrote if it refused, and with `undefined` if
   * it succeeded. @throws Error if it does not run, or ended otherwise
   */
  examine: (assignment: string, command: readonly string[], signal: AbortSignal) => Promise<string | undefined>;
  clock: Clock;
  log: Logger;
  /** The proxy listens at these ports of the machine. */
  opened: (ports: readonly number[]) => void;
  /** What became of the routes of these assignments has changed. */
  changed: (ids: readonly string[]) => void;
}

/** The proxy may have been changed from outside, or have started with its first configuration. */
const resyncMs = 10_000;
const retryMs = 1_000;

/**
 * Brings the proxy of the server to the routes of its applications. Instances come and go without it: the proxy asks for
 * them. Its configuration is loaded only if it differs from the one that it runs with. Routes that it does not take are
 * left out, so that they break no others. Settings that it does not take change nothing.
 */
export class ServerIngress implements AsyncDisposable {
  readonly #deps: Deps;
  readonly #folder: ProxyFolder;
  readonly #proxy: Proxy;
  readonly #loader: ConfigLoader;
  readonly #certificates: Certificates;
  readonly #closing = new AbortController();
  readonly upstreams: Upstreams;
  readonly traffic: Traffic;
  #settings: { id: string; spec: Ingress } | undefined;
  #server: Awaited<ReturnType<Proxy['serve']>> | undefined;
  readonly #all = new Map<string, RoutesOf>();
  #placed: readonly PlacedRoute[] = [];
  /** Those of the configuration that was loaded last: the proxy may ask for their names. */
  #served: readonly PlacedRoute[] = [];
  /** Assignments that were said to have no routes since the proxy was last brought up to date. */
  readonly #leaving = new Set<string>();
  readonly #refused = new Map<string, { routes: string; why: string }>();
  /** Hosts of deleted applications, whose certificates go at once. */
  readonly #forgotten = new Set<string>();
  /** Assignments whose routes the proxy has. */
  #loaded: ReadonlySet<string> = new Set();
  #isDue = false;
  #problem: ProxyProblem | undefined;
  #isStale = false;
  #isReleased = false;
  #turn: Promise<unknown> = Promise.resolve();
  #running: Promise<void> | undefined;
  #cancelTimer: () => void = () => undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#folder = new ProxyFolder(deps.folder);
    this.#proxy = deps.openProxy(this.#folder.sockets);
    const isRouted = (one: { workload: string; service: string }): boolean =>
      this.#routes.some(({ workload, service }) => workload === one.workload && service === one.service);
    const { clock, log } = deps;
    const examine = (path: string, signal: AbortSignal) =>
      deps.examine(this.#settings?.id ?? '', ['caddy', 'validate', '--config', path], signal);
    this.#loader = new ConfigLoader({ proxy: this.#proxy, folder: this.#folder, examine, clock, log });
    this.traffic = new Traffic({
      logFolder: this.#folder.logs,
      folder: deps.trafficFolder,
      ownerOf: (host) => this.#ownerOf(host),
      clock: deps.clock,
      log: deps.log,
    });
    this.upstreams = new Upstreams({
      clock: deps.clock,
      changed: () => this.#wake(),
      offered: (assignment, upstream) => this.traffic.offered(assignment, upstream),
      isRouted,
    });
    const changed = (host: string): void => deps.changed(this.#idsOf(host));
    const failures = new CertificateFailures({ logFolder: this.#folder.logs, log: deps.log });
    const failureOf = (host: string, since: Date) => failures.of(host, since, this.#closing.signal);
    this.#certificates = new Certificates({ proxy: this.#proxy, clock: deps.clock, changed, failureOf });
  }

  /** The assignment is the proxy, or, without settings, is not any more. */
  setProxy(id: string, spec: Ingress | undefined): void {
    if (spec === undefined && this.#settings?.id !== id) return;
    if (isDeepStrictEqual(this.#settings?.spec, spec)) return;
    this.#settings = spec && { id, spec };
    this.#refused.clear();
    this.#place();
    this.#deps.opened(spec === undefined ? [] : [spec.http_port, spec.https_port]);
    this.#wake();
  }

  /** The proxy follows the routes and the instances. */
  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** Every instance was inspected: from now on the proxy follows the routes and the instances, and not before. */
  release(): void {
    this.#isReleased = true;
    this.upstreams.followed();
    this.#wake();
  }

  /** Something of the proxy's container has changed. */
  wake(id: string): void {
    if (this.#settings?.id === id) this.#wake();
  }

  /** Sets the routes of an assignment; `undefined`: it has none any more, and no others get the `forgotten` hosts. */
  setRoutes(id: string, routes: Omit<RoutesOf, 'id'> | undefined, forgotten: readonly string[] = []): void {
    for (const host of forgotten) this.#forgotten.add(host);
    if (routes === undefined) {
      this.#all.delete(id);
      this.#leaving.add(id);
    } else this.#all.set(id, { id, ...routes });
    const refused = this.#refused.get(id);
    if (refused !== undefined && refused.routes !== JSON.stringify(routes?.routes)) this.#refused.delete(id);
    this.#place();
    this.#loaded = new Set([...this.#loaded].filter((one) => one !== id));
    this.#wake();
  }

  standOf(id: string): Stand {
    const refused = this.#refused.get(id);
    if (refused !== undefined) return { is: 'refused', why: refused.why };
    if (!this.#loaded.has(id)) return { is: this.#isDue ? 'pending' : 'unavailable' };
    const hosts = new Set(this.#all.get(id)?.routes.flatMap(({ host, tls }) => (tls === 'off' ? [] : [host])));
    return { is: 'loaded', certificates: [...hosts].flatMap((host) => this.#certificates.of(host) ?? []) };
  }

  /** What keeps that assignment, if it is the proxy, from doing what its settings say. */
  problemOf(id: string): ProxyProblem | undefined {
    return this.#settings?.id === id ? this.#problem : undefined;
  }

  /** True once the proxy has no routes of the assignment, or does not run. */
  isRid(id: string): boolean {
    return !this.#all.has(id) && !this.#isStale && !this.#isDue && this.#running === undefined;
  }

  /** What the container of the proxy needs: its folder, with the configuration that it starts with. */
  async mounts(): Promise<Mount[]> {
    const { ports } = await this.#prepare();
    const settings = this.#settings;
    // what it loaded before stays what it starts with, unless it would not reach the agent or its ports
    if (settings !== undefined && this.#problem === undefined) {
      const boot = proxyConfig(settings.spec, [], ports);
      const known = await this.#folder.bootConfig();
      if (frameOf(known) !== frameOf(plain(boot))) await this.#folder.setBootConfig(boot);
    }
    return this.#folder.mounts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelTimer();
    await this.#running;
    await this.#certificates[Symbol.asyncDispose]();
    await this.traffic[Symbol.asyncDispose]();
    await this.#server?.[Symbol.asyncDispose]();
  }

  #place(): void {
    this.#placed = place([...this.#all.values()].filter(({ id }) => !this.#refused.has(id)));
  }

  #wake(): void {
    this.#isStale = true;
    if (this.#closing.signal.aborted || !this.#isReleased) return;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      const left = [...this.#leaving];
      if (!this.#isDue) this.#leaving.clear();
      this.#deps.changed([...this.#all.keys(), ...left]);
      if (this.#isStale && !this.#closing.signal.aborted) this.#wake(); // woken while the last run ended
    });
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // several changes at once are one
    let ms = resyncMs;
    while (this.#isStale && !this.#closing.signal.aborted) {
      this.#isStale = false;
      this.#cancelTimer();
      ms = await this.#reconcile().catch((error: unknown) => this.#failed(error));
    }
    if (this.#settings !== undefined && !this.#closing.signal.aborted)
      this.#cancelTimer = this.#deps.clock.timer(ms, () => this.#wake());
  }

  #failed(error: unknown): number {
    this.#loaded = new Set();
    this.#isDue = false;
    this.#certificates.set(new Set(), undefined);
    this.#deps.log.debug({ err: error }, 'The proxy of the server is not reached: the agent tries again');
    return retryMs;
  }

  /** Resolves with the milliseconds until it is to be done again. */
  async #reconcile(): Promise<number> {
    const settings = this.#settings;
    if (settings === undefined) {
      await this.#stop();
      return resyncMs;
    }
    const { ports } = await this.#prepare();
    this.traffic.start();
    await this.#setFiles();
    const all = [...this.#all.values()];
    const placed = this.#placed;
    const wanted = wantedConfig(settings.spec, { placed, all }, ports);
    const loading = await this.#loader.bring(wanted, this.#closing.signal);
    this.#isDue = loading.is === 'due';
    this.#tell(loading.is === 'refused' ? await withPortUser(loading.why) : undefined);
    switch (loading.is) {
      case 'due':
      case 'refused': {
        // hosts without options need no load
        const loaded = all.filter((one) => this.#loaded.has(one.id) || !wanted.parts.has(one.id));
        this.#loaded = new Set(loaded.map(({ id }) => id).filter((id) => !this.#refused.has(id)));
        return Math.min(loading.ms, resyncMs);
      }
      case 'in_part':
        for (const [id, why] of loading.refused)
          this.#refused.set(id, { routes: JSON.stringify(this.#all.get(id)?.routes), why });
        this.#place();
        this.#isStale = true;
        return retryMs;
      case 'loaded':
        if (loading.isNew) {
          await this.#folder.setBootConfig(wanted.config);
          this.#deps.log.info({ routes: placed.length }, 'The proxy has another configuration');
        }
        this.#served = placed;
        this.#loaded = new Set(all.map(({ id }) => id).filter((id) => !this.#refused.has(id)));
        this.#certificates.set(hostsOf(placed).redirected, settings.spec.https_port);
        await this.#setFiles();
        return resyncMs;
    }
  }

  async #stop(): Promise<void> {
    this.#loaded = new Set();
    this.#served = [];
    this.#isDue = false;
    this.#problem = undefined;
    this.#certificates.set(new Set(), undefined);
    this.traffic.stop();
    await this.#server?.[Symbol.asyncDispose]();
    this.#server = undefined;
  }

  /** What of the routes and the instances needs no configuration. The proxy finds it at the next request. */
  async #setFiles(): Promise<void> {
    const hosts = hostsOf(this.#placed);
    // of the same instant: hosts that are forgotten meanwhile are still among those
    const forgotten = new Set(this.#forgotten);
    // a host that has got an option stays what it is until that is loaded
    const stays = new Set(this.#placed.map(({ host }) => host));
    await this.#folder.setHosts(
      this.#served === this.#placed ? hosts : withPresent(hosts, hostsOf(this.#served), stays),
    );
    await this.#folder.setNames(this.upstreams.all.map(({ address }) => address));
    await this.#folder.keepCertificates(hosts.redirected, this.#deps.clock.now().getTime(), forgotten);
    for (const host of forgotten) this.#forgotten.delete(host);
  }

  #tell(why: string | undefined): void {
    const message =
      why === undefined
        ? undefined
        : `The proxy does not take the settings of the ingress, and goes on with those of before: ${why}`;
    if (message === this.#problem?.message) return;
    this.#problem = message === undefined ? undefined : { code: 'proxy_refused', message };
    if (this.#settings !== undefined) this.#deps.changed([this.#settings.id]);
  }

  get #routes(): readonly PlacedRoute[] {
    return this.#served === this.#placed ? this.#placed : [...this.#placed, ...this.#served];
  }

  /** One at a time. */
  #prepare(): Promise<{ ports: AgentPorts }> {
    const turn = this.#turn.then(() => this.#prepareNow());
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #prepareNow(): Promise<{ ports: AgentPorts }> {
    await this.#folder.make();
    const settings = this.#settings;
    this.#server ??= await this.#serve();
    const { ports } = this.#server;
    if (settings === undefined) return { ports };
    const { ca } = settings.spec.acme;
    if (ca !== undefined) await this.#folder.setAuthority(ca);
    return { ports };
  }

  async #serve(): Promise<Awaited<ReturnType<Proxy['serve']>>> {
    const known = await this.#folder.ports();
    const server = await this.#proxy.serve(
      {
        backends: (name) => {
          // an answer of nothing, which the proxy does not take for an answer
          const route = this.#isReleased ? this.#routes.find((one) => one.name === name) : undefined;
          return route && this.upstreams.of(route);
        },
        isEncrypted: (host) => this.#placed.some((one) => one.host === host && one.tls !== 'off'),
      },
      known,
    );
    if (!isDeepStrictEqual(known, server.ports)) await this.#folder.setPorts(server.ports);
    return server;
  }

  #ownerOf(host: string): string | undefined {
    const owners = new Set(this.#placed.filter((one) => one.host === host).map(({ workload }) => workload));
    return owners.size === 1 ? [...owners][0] : undefined;
  }

  #idsOf(host: string): string[] {
    return [...this.#all.values()].filter(({ routes }) => routes.some((one) => one.host === host)).map(({ id }) => id);
  }
}

/** The configuration of all routes, and that of each assignment whose routes are in it. */
function wantedConfig(
  spec: Ingress,
  { placed, all }: { placed: readonly PlacedRoute[]; all: readonly RoutesOf[] },
  ports: AgentPorts,
): Wanted {
  const explicit = new Set(placed.filter(({ isPlain }) => !isPlain).map(({ workload }) => workload));
  const parts = all.filter(({ workload }) => explicit.has(workload));
  return {
    config: proxyConfig(spec, placed, ports),
    frame: proxyConfig(spec, [], ports),
    parts: new Map(parts.map((one) => [one.id, () => proxyConfig(spec, place([one]), ports)])),
  };
}

/** With those of the present hosts that stay. */
function withPresent(hosts: Hosts, present: Hosts, stays: ReadonlySet<string>): Hosts {
  const both = (folder: keyof Hosts) =>
    new Set([...hosts[folder], ...[...present[folder]].filter((it) => stays.has(it))]);
  return { plain: both('plain'), secure: both('secure'), redirected: both('redirected') };
}
type Hosts = ReturnType<typeof hostsOf>;

/** Says of a port that the proxy could not have which program has it, and what to do. */
async function withPortUser(why: string): Promise<string> {
  const port = Number(/:(\d+): bind: address already in use/.exec(why)?.[1]);
  if (!Number.isInteger(port)) return why;
  const user = programAt(port, await userOfPort(port));
  return `${why}. Port ${port} is taken by ${user}: stop that, or set another http_port or https_port of the ingress`;
}

/** What of a configuration decides where the proxy listens and whom it asks; it is in every one. */
function frameOf(config: unknown): string {
  const text = config === undefined ? '' : JSON.stringify(config);
  const of = (pattern: RegExp): string => pattern.exec(text)?.[0] ?? '';
  return [/"http_port":\d+/, /"https_port":\d+/, /"endpoint":"[^"]*"/, /"addresses":\["udp[^\]]*\]/].map(of).join();
}
