import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { Route } from '../../agent-protocol/workload.ts';
import type { Ingress } from '../../agent-protocol/workload.ts';
import { proxyConfig } from '../../agent/ingress/config.ts';
import { NameServer } from '../../agent/ingress/name-server.ts';
import { openNameSocket } from '../../agent/ingress/name-socket.ts';
import { ProxyFolder } from '../../agent/ingress/proxy-folder.ts';
import { place } from '../../agent/ingress/proxy-routes.ts';
import { freePort } from './program.ts';
import { until } from './until.ts';

/** Its files are mounted over those of the machine as in a container, for it alone. */
const start = 'while [ $# -gt 1 ]; do mount --bind "$1" "$2" && shift 2 || exit; done; exec caddy run --config "$1"';

/** A proxy with the configuration and the files of an agent, on this machine without a container. */
export interface HostProxy extends AsyncDisposable {
  url: string;
  port: number;
  pid: number;
  /** Of its only instance, which is in this process and answers everything with `Hello`. */
  address: string;
  /** What it is told of the instances of the host; `undefined`: it gets no answer. */
  upstreams: readonly { address: string; port: number }[] | undefined;
  /** Headers of the last request that the instance got. */
  readonly seen: IncomingHttpHeaders;
}

interface HostProxyOptions {
  /** Changes its configuration. */
  edit?: (config: string) => string;
  /** Further routes to the instance, each of an application of its own. */
  closed?: readonly Route[];
  settings?: Partial<Ingress>;
}

/** The proxy leads that host to its instance, and keeps its files in the folder. */
export async function startHostProxy(
  folder: string,
  host: string,
  { edit = (config) => config, closed = [], settings = {} }: HostProxyOptions = {},
): Promise<HostProxy> {
  await using stack = new AsyncDisposableStack();
  const files = new ProxyFolder(folder);
  await files.make();
  const address = Object.values(networkInterfaces())
    .flat()
    .find((it) => it?.family === 'IPv4' && !it.internal)?.address;
  if (address === undefined) throw new Error('The machine has no address but that of loopback');
  let seen: IncomingHttpHeaders = {};
  const instance = createServer(({ headers }, response) => {
    seen = headers;
    response.end('Hello');
  });
  instance.listen(0, address);
  await once(instance, 'listening');
  stack.defer(() => {
    instance.close();
    instance.closeAllConnections();
  });
  const { port: instancePort } = instance.address() as AddressInfo; // it listens on a port
  let upstreams: HostProxy['upstreams'] = [{ address, port: instancePort }];
  const names = stack.use(await NameServer.open(0, () => upstreams));
  stack.use(await openNameSocket(files.sockets.names, () => upstreams));
  await files.setNames([address]);
  const [port, https_port] = [await freePort(), await freePort()];
  const own = { id: 'a', workload: 'w', routes: [Route.parse({ host, tls: 'off' })] };
  const routes = place([own, ...closed.map((route, n) => ({ id: `b${n}`, workload: `w${n}`, routes: [route] }))]);
  await writeFile(join(folder, 'hosts/plain', host), '');
  const all = { http_port: port, https_port, acme: {}, ...settings };
  const config = proxyConfig(all, routes, { names: names.port, asks: 1 });
  const path = join(folder, 'caddy.json');
  await writeFile(path, edit(JSON.stringify(config).replaceAll('/setpoint', folder)));
  const env = { PATH: process.env['PATH'], HOME: folder };
  const mounted = files.mounts.flatMap((it) => (it.type === 'file' ? [it.source, it.path] : []));
  const child = spawn('unshare', ['--mount', '/bin/sh', '-c', start, 'sh', ...mounted, path], { stdio: 'ignore', env });
  const exited = once(child, 'exit');
  stack.defer(async () => {
    child.kill();
    await exited;
  });
  await until('the proxy listens', async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/`); // by an unknown host
    return answer.status === 404 || answer.ok;
  });
  const owned = stack.move();
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    pid: child.pid ?? 0,
    address,
    get seen() {
      return seen;
    },
    get upstreams() {
      return upstreams;
    },
    set upstreams(told) {
      upstreams = told;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
