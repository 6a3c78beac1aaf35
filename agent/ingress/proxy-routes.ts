import { createHash } from 'node:crypto';
import type { Route } from '../../agent-protocol/workload.ts';
import type { Target } from './upstreams.ts';

/** The routes of one application. */
export interface RoutesOf {
  /** Id of the assignment. */
  id: string;
  workload: string;
  routes: readonly Route[];
}

/** A route and the names by which the proxy finds its instances. */
export interface PlacedRoute extends Route {
  workload: string;
  /** Name of the service record. */
  name: string;
  /** A configuration that never changes carries it out: it is all of its host and has no options. */
  isPlain: boolean;
}

/** The last label of the names that only the proxy asks for. */
export const zone = 'setpoint';

/** Name of the record of a host that needs no configuration. The proxy makes the same name of the host of a request. */
export function plainName(host: string): string {
  return `${host}.host.${zone}`;
}

/**
 * The routes in the order of the proxy: longer paths first. The first of two routes with one host and path has it. A host
 * with one route without options is plain.
 */
export function place(all: readonly RoutesOf[]): PlacedRoute[] {
  const ordered = all.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const routes = new Map<string, Route & { workload: string }>();
  for (const { workload, routes: own } of ordered)
    for (const route of own) {
      const key = `${route.host} ${route.path}`;
      if (!routes.has(key)) routes.set(key, { ...route, workload });
    }
  const perHost = new Map<string, number>();
  for (const { host } of routes.values()) perHost.set(host, (perHost.get(host) ?? 0) + 1);
  return [...routes.values()]
    .map((route) => {
      const isPlain = perHost.get(route.host) === 1 && hasNoOptions(route);
      return { ...route, isPlain, name: isPlain ? plainName(route.host) : nameOf(route) };
    })
    .toSorted((a, b) => b.path.length - a.path.length || (a.host < b.host ? -1 : 1));
}

function nameOf({ workload, service, port }: Target): string {
  const hash = createHash('sha256').update(JSON.stringify([workload, service, port ?? null]));
  return `${hash.digest('hex').slice(0, 32)}.route.${zone}`;
}

function hasNoOptions(route: Route): boolean {
  const { path, redirect_to, basic_auth, headers, max_body_bytes, timeout_seconds } = route;
  return (
    path === '/' &&
    redirect_to === undefined &&
    basic_auth.length === 0 &&
    Object.keys(headers.set).length + headers.remove.length === 0 &&
    max_body_bytes === undefined &&
    timeout_seconds === undefined
  );
}
