import type { AnyEndpoint, Method } from '../endpoint/endpoint.ts';
import type { Permission } from '../rights/permissions.ts';
import { permissionOf } from '../rights/permissions.ts';

/** An endpoint with its row of permissions. */
export interface Route {
  endpoint: AnyEndpoint;
  permission: Permission;
  /** Names of the path parameters, in order. */
  params: readonly string[];
}

export interface Match {
  route: Route;
  params: ReadonlyMap<string, string>;
}

interface Node {
  fixed: Map<string, Node>;
  any: Node | undefined;
  routes: Map<Method, Route>;
}

const emptyNode = (): Node => ({ fixed: new Map(), any: undefined, routes: new Map() });

/**
 * Matches method and path (below `/api/v1`) in as many steps as the path has segments; a fixed segment wins over a
 * parameter. @throws Error at the start for an endpoint without a row of permissions, or for a duplicate.
 */
export function createRouter(endpoints: readonly AnyEndpoint[]): (method: string, path: string) => Match | undefined {
  const root = emptyNode();
  for (const endpoint of endpoints) {
    const node = endpoint.path.split('/').slice(1).reduce(descend, root);
    if (node.routes.has(endpoint.method)) throw new Error(`Route is there twice: ${endpoint.method} ${endpoint.path}`);
    node.routes.set(endpoint.method, {
      endpoint,
      permission: permissionOf(endpoint.method, endpoint.path),
      params: paramsOf(endpoint.path),
    });
  }
  return (method, path) => {
    const segments = path.split('/').slice(1);
    if (segments.length > 1 && segments.at(-1) === '') segments.pop();
    const values: string[] = [];
    const route = find(root, segments, 0, method, values);
    return route && { route, params: new Map(route.params.map((name, at) => [name, values[at] ?? ''])) };
  };
}

function descend(node: Node, segment: string): Node {
  if (segment.startsWith(':')) return (node.any ??= emptyNode());
  let next = node.fixed.get(segment);
  if (next === undefined) node.fixed.set(segment, (next = emptyNode()));
  return next;
}

function find(
  node: Node,
  segments: readonly string[],
  at: number,
  method: string,
  values: string[],
): Route | undefined {
  const segment = segments[at];
  // an unknown method is in no map
  if (segment === undefined) return node.routes.get(method as Method);
  const fixed = node.fixed.get(segment);
  const found = fixed && find(fixed, segments, at + 1, method, values);
  if (found !== undefined) return found;
  if (node.any === undefined || segment === '') return undefined;
  values.push(segment);
  const below = find(node.any, segments, at + 1, method, values);
  if (below === undefined) values.pop();
  return below;
}

function paramsOf(path: string): string[] {
  return [...path.matchAll(/:([A-Za-z]+)/g)].map(([, name = '']) => name);
}
