import type { Ingress } from '../../agent-protocol/workload.ts';
import type { LogName } from './places.ts';
import { authorityFile, inside, logForms, sockets } from './places.ts';
import type { PlacedRoute } from './proxy-routes.ts';
import { plainName } from './proxy-routes.ts';
import { signIn, signInServers } from './sign-in.ts';

/** Folders with an empty file for each host, which the proxy looks for: another host needs no other configuration. */
export const hostFolders = ['plain', 'secure', 'redirected'] as const;
export type HostFolder = (typeof hostFolders)[number];

/** The hosts of each folder. */
export function hostsOf(routes: readonly PlacedRoute[]): Record<HostFolder, Set<string>> {
  const hosts = { plain: new Set<string>(), secure: new Set<string>(), redirected: new Set<string>() };
  for (const { host, tls, isPlain } of routes) {
    if (tls !== 'off') hosts.redirected.add(host);
    if (isPlain) hosts[tls === 'off' ? 'plain' : 'secure'].add(host);
  }
  return hosts;
}

type Json = Record<string, unknown>;

/** Where the proxy finds the agent on this machine, for the addresses of instances and for permissions. */
export interface AgentPorts {
  names: number;
  asks: number;
}

/** The whole configuration of the proxy, which is that of Caddy. Pure: equal routes have equal configurations. */
export function proxyConfig(settings: Ingress, routes: readonly PlacedRoute[], agent: AgentPorts): Json {
  const { http_port, https_port, trusted_proxies: ranges = [] } = settings;
  const explicit = routes.filter(({ isPlain }) => !isPlain);
  const inClear = explicit.filter(({ tls }) => tls === 'off');
  const encrypted = explicit.filter(({ tls }) => tls !== 'off');
  const common = {
    automatic_https: { disable: true },
    logs: { default_logger_name: 'access' },
    errors: errorPages,
    // strict: of several addresses the last one that no trusted proxy has is the client's
    ...(ranges.length > 0 && { trusted_proxies: { source: 'static', ranges }, trusted_proxies_strict: 1 }),
  };
  const anyPlain = proxy({ name: plainName('{http.request.host}') }, agent);
  const port = https_port === 443 ? '' : `:${https_port}`;
  const location = `https://{http.request.host}${port}{http.request.uri}`;
  return {
    admin: { listen: `unix/${inside}/run/${sockets.admin}|0600`, config: { persist: false } },
    storage: { module: 'file_system', root: `${inside}/storage` },
    logging,
    apps: {
      http: {
        http_port,
        https_port,
        grace_period: '10s',
        servers: {
          http: {
            ...common,
            listen: [`:${http_port}`],
            routes: [
              inSmallLetters,
              ...inClear.map((route) => routeOf(route, agent)),
              { match: [inFolder('plain')], handle: anyPlain, terminal: true },
              { match: [inFolder('redirected')], handle: [redirect(location)], terminal: true },
              { handle: [page(404, unknownHost)] },
            ],
          },
          https: {
            ...common,
            listen: [`:${https_port}`],
            tls_connection_policies: [{}],
            routes: [
              inSmallLetters,
              ...encrypted.map((route) => routeOf(route, agent)),
              { match: [inFolder('secure')], handle: anyPlain, terminal: true },
              { match: [inFolder('redirected')], handle: [page(404, unknownPath)], terminal: true },
              { handle: [page(421, unknownHost)] },
            ],
          },
          ...signInServers(explicit),
        },
      },
      tls: tlsOf(settings, routes, agent),
      pki: { certificate_authorities: { local: { install_trust: false } } },
    },
  };
}

const unknownHost = 'No application is reachable by this name on this server.';
const unknownPath = 'No application is reachable by this address.';

/** The files of hosts have small letters. */
const inSmallLetters = {
  match: [{ header_regexp: { Host: { pattern: '[A-Z]' } } }],
  handle: [
    {
      handler: 'headers',
      request: {
        replace: {
          Host: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'.split('').map((it) => ({ search: it, replace: it.toLowerCase() })),
        },
      },
    },
  ],
};

/** The requests would wait for a reader of anything but a file. */
function logFile(name: LogName): Json {
  const { megabytes, rolled } = logForms[name];
  return {
    output: 'file',
    filename: `${inside}/log/${name}.log`,
    roll_size_mb: megabytes,
    roll_keep: rolled,
    roll_gzip: false,
  };
}

/** What of a request is in no log: who made it, and what it says beyond the host. */
const ofClients = [
  'user_id',
  'resp_headers',
  'request>remote_ip',
  'request>remote_port',
  'request>client_ip',
  'request>proto',
  'request>method',
  'request>uri',
  'request>headers',
  'request>tls',
];

function without(fields: readonly string[]): Json {
  const unwritten = Object.fromEntries(fields.map((field) => [field, { filter: 'delete' }]));
  return { format: 'filter', wrap: { format: 'json' }, fields: unwritten };
}

const logging = {
  logs: {
    default: { level: 'WARN', exclude: ['http.log.access'], encoder: without(ofClients) },
    access: {
      writer: logFile('access'),
      encoder: without(['level', 'logger', 'msg', ...ofClients]),
      include: ['http.log.access'],
    },
    // why there is no certificate, for the agent
    tls: { level: 'ERROR', writer: logFile('tls'), encoder: { format: 'json' }, include: ['tls'] },
  },
};

/** Marks in the log what the proxy itself answered in place of the application. */
const markError = { handler: 'log_append', key: 'error', value: '{http.error.status_code}' };

const errorPages = {
  routes: [
    {
      match: [{ vars: { '{http.error.status_code}': ['502', '503', '504'] } }],
      handle: [markError, page(503, 'The application does not answer at the moment.')],
    },
    {
      handle: [
        markError,
        { handler: 'static_response', status_code: '{http.error.status_code}', body: '{http.error.status_text}\n' },
      ],
    },
  ],
};

function tlsOf(settings: Ingress, routes: readonly PlacedRoute[], agent: AgentPorts): Json {
  const internal = [...new Set(routes.filter(({ tls }) => tls === 'internal').map(({ host }) => host))].toSorted();
  const { directory, email, ca } = settings.acme;
  const issuer = {
    module: 'acme',
    ...(directory !== undefined && { ca: directory }),
    ...(email !== undefined && { email }),
    ...(ca !== undefined && { trusted_roots_pem_files: [`${inside}/${authorityFile(ca)}`] }),
    challenges: {
      http: { alternate_port: settings.http_port },
      'tls-alpn': { alternate_port: settings.https_port },
    },
  };
  const policies = [
    ...(internal.length > 0 ? [{ subjects: internal, issuers: [{ module: 'internal' }], on_demand: true }] : []),
    { issuers: [issuer], on_demand: true },
  ];
  const permission = { module: 'http', endpoint: `http://127.0.0.1:${agent.asks}/ask` };
  return { automation: { policies, on_demand: { permission } } };
}

function inFolder(folder: HostFolder): Json {
  return { file: { root: `${inside}/hosts/${folder}`, try_files: ['/{http.request.host}'] } };
}

function routeOf(route: PlacedRoute, agent: AgentPorts): Json {
  const { host, path } = route;
  const paths = path === '/' ? {} : { path: [path, `${path}/*`] };
  return { match: [{ host: [host], ...paths }], handle: handlersOf(route, agent), terminal: true };
}

function handlersOf(route: PlacedRoute, agent: AgentPorts): Json[] {
  const { headers, basic_auth, max_body_bytes, redirect_to, workload } = route;
  // the log has no path by which the agent could know it
  const handlers: Json[] = [{ handler: 'log_append', key: 'workload', value: workload }];
  if (Object.keys(headers.set).length + headers.remove.length > 0) {
    const set = Object.fromEntries(Object.entries(headers.set).map(([name, value]) => [name, [value]]));
    handlers.push({ handler: 'headers', response: { set, delete: headers.remove, deferred: true } });
  }
  if (basic_auth.length > 0) handlers.push(signIn(route));
  if (max_body_bytes !== undefined) handlers.push({ handler: 'request_body', max_size: max_body_bytes });
  if (redirect_to !== undefined) return [...handlers, redirect(redirect_to)];
  return [...handlers, ...proxy(route, agent)];
}

/** Leads to the instances of a name. Only requests that change nothing are tried again at another one. */
function proxy(
  { name, timeout_seconds }: { name: string; timeout_seconds?: number | undefined },
  agent: AgentPorts,
): Json[] {
  // a frozen agent refuses connections, where datagrams would wait for it: all requests wait for this answer
  const ofInstances = { addresses: [`unix/${inside}/run/${sockets.names}`] };
  const ofAddresses = { addresses: [`udp/127.0.0.1:${agent.names}`] };
  return [
    { handler: 'log_append', key: 'upstream', value: '{http.reverse_proxy.upstream.hostport}' },
    {
      handler: 'reverse_proxy',
      // By itself, this source forgets what it knew whenever a request is tried again: `multi` has nothing to forget.
      dynamic_upstreams: {
        source: 'multi',
        // a failed question is asked again after a second, and what was known serves until then
        sources: [
          {
            source: 'srv',
            name: `${name}.`,
            refresh: '250ms',
            resolver: ofInstances,
            grace_period: '1s',
            dial_timeout: '1s',
          },
        ],
      },
      load_balancing: {
        selection_policy: { policy: 'least_conn' },
        try_duration: '3s',
        try_interval: '50ms',
        retries: 10,
        retry_match: [{ method: ['GET', 'HEAD'] }],
      },
      // for the moment until the agent knows of a dead instance; one failure shows nothing of the others
      health_checks: { passive: { fail_duration: '1s', max_fails: 5 } },
      transport: {
        protocol: 'http',
        resolver: ofAddresses,
        dial_timeout: '1s',
        // short, as an instance that stops waits for its open connections
        keep_alive: { idle_timeout: '3s' },
        ...(timeout_seconds !== undefined && { response_header_timeout: `${timeout_seconds}s` }),
      },
      stream_close_delay: '5m',
    },
  ];
}

function redirect(location: string): Json {
  return { handler: 'static_response', status_code: 308, headers: { Location: [location] } };
}

function page(status: number, text: string): Json {
  const headers = { 'Content-Type': ['text/plain; charset=utf-8'], 'Cache-Control': ['no-store'] };
  return { handler: 'static_response', status_code: status, headers, body: `${text}\n` };
}
