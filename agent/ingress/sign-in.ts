import { createHash } from 'node:crypto';
import { inside } from './places.ts';
import type { PlacedRoute } from './proxy-routes.ts';

type Json = Record<string, unknown>;
type SignIn = Pick<PlacedRoute, 'workload' | 'basic_auth'>;

/**
 * A password costs 20 to 46 MiB while it is checked, also that of a user who does not exist. The proxy checks so many at
 * once, and of one application one: the others wait, or are refused, and all that needs no password goes on.
 */
const atOnce = { ofAll: 2, ofOne: 1 };
const patience = { try_duration: '3s', try_interval: '25ms' };

/** A longer one is of no user, and would fill the memory of what was checked already. */
const credentials = '^(?i:basic) [A-Za-z0-9+/=]{1,1000}[A-Za-z0-9+/=]{0,200}$';

const accepted = 204;
const checker = socketOf('passwords');

/** Lets a request pass that has the name and the password of a user. */
export function signIn(route: SignIn): Json {
  const refuse = [
    { handler: 'headers', response: { set: { 'WWW-Authenticate': ['Basic realm="restricted"'] } } },
    { handler: 'error', status_code: 401 },
  ];
  const ask = {
    ...asking(gateOf(route), atOnce.ofOne),
    rewrite: { method: 'GET', uri: pathOf(route) },
    headers: { request: { delete: ['Connection', 'Upgrade', 'Cookie'] } },
    handle_response: [
      { match: { status_code: [accepted] }, routes: [{ handle: [{ handler: 'vars' }] }] },
      { match: { status_code: [401] }, routes: [{ handle: refuse }] },
    ],
  };
  const isNone = { not: [{ header_regexp: { Authorization: { pattern: credentials } } }] };
  return { handler: 'subroute', routes: [{ match: [isNone], handle: refuse }, { handle: [ask] }] };
}

/**
 * The servers by which the proxy asks itself, as a bound of requests is one of servers: first one for each application,
 * and then the one that checks.
 */
export function signInServers(routes: readonly SignIn[]): Record<string, Json> {
  const closed = routes.filter(({ basic_auth }) => basic_auth.length > 0);
  if (closed.length === 0) return {};
  const gates = [...new Set(closed.map(gateOf))].toSorted();
  const users = new Map(closed.map((route) => [pathOf(route), route.basic_auth]));
  const common = { automatic_https: { disable: true } };
  const checks = [...users].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([path, list]) => check(path, list));
  return {
    gates: { ...common, listen: gates.map(listener), routes: [{ handle: [asking(checker, atOnce.ofAll)] }] },
    passwords: { ...common, listen: [listener(checker)], routes: checks },
  };
}

function check(path: string, users: SignIn['basic_auth']): Json {
  const accounts = users.map(({ username, password_hash: password }) => ({ username, password }));
  const http_basic = { accounts, hash: { algorithm: 'argon2id' }, hash_cache: {} };
  return {
    match: [{ path: [path] }],
    handle: [
      { handler: 'authentication', providers: { http_basic } },
      { handler: 'static_response', status_code: accepted },
    ],
    terminal: true,
  };
}

function asking(socket: string, max_requests: number): Json {
  return { handler: 'reverse_proxy', upstreams: [{ dial: socket, max_requests }], load_balancing: patience };
}

function gateOf({ workload }: SignIn): string {
  return socketOf(`gate-${hashOf(workload)}`);
}

function pathOf({ basic_auth }: SignIn): string {
  return `/${hashOf(basic_auth)}`;
}

function socketOf(name: string): string {
  return `unix/${inside}/run/${name}.sock`;
}

function listener(socket: string): string {
  return `${socket}|0600`;
}

function hashOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32);
}
