import { kinds } from '../../store/kinds/kinds.ts';
import type { AnyEndpoint } from '../endpoint/endpoint.ts';
import { routeName } from '../endpoint/endpoint.ts';
import type { Resource } from '../resources/resource.ts';

type ResourceLike = Pick<Resource, 'kind' | 'watch' | 'under' | 'answer' | 'verbs'> & { settle?: unknown };

/** The tables that must agree. */
export interface Declared {
  kinds: Readonly<Record<string, { kind: string; observed: { shape: object } }>>;
  resources: Readonly<Record<string, ResourceLike | { never: string }>>;
  endpoints: readonly AnyEndpoint[];
}

/** What the kinds need and nothing declares, each with the declaration that is missing. */
export function missingDeclarations({ kinds: all, resources, endpoints }: Declared): string[] {
  return [
    ...Object.keys(all).flatMap((kind) => {
      const resource = resources[kind];
      if (resource === undefined)
        return [
          `Kind ${kind} has no resource: declare one by defineResource and add it to api/resources/resources.ts, ` +
            'or give the reason there why the API never shows the kind ({ never })',
        ];
      return 'never' in resource ? [] : faultsOf(kind, resource, all, endpoints);
    }),
    ...endpoints.flatMap((endpoint) => unclearPlace(endpoint, resources)),
  ];
}

function faultsOf(
  kind: string,
  resource: ResourceLike,
  all: Declared['kinds'],
  endpoints: readonly AnyEndpoint[],
): string[] {
  const faults: string[] = [];
  if (resource.kind !== kind)
    faults.push(`Resource ${kind} declares the kind ${resource.kind}: correct api/resources/resources.ts`);
  if (!endpoints.some((endpoint) => shows(endpoint, kind, resource)))
    faults.push(
      `No endpoint shows the kind ${kind}: export one from api/routes/ and list its file in api/routes/endpoints.ts, ` +
        'or give the reason in api/resources/resources.ts why the API never shows the kind ({ never })',
    );
  if ('phase' in (all[kind]?.observed.shape ?? {}) && resource.settle === undefined)
    faults.push(`Resource ${kind} has a controller but no isSettled: declare when ?wait= answers`);
  if ('shows' in resource.watch && !endpoints.some((it) => it.list && isSchemaOf(it.item, resource)))
    faults.push(
      `Resource ${kind} is in /ws/watch but in no list: readers of the stream begin with the list, so export one ` +
        'from api/routes/, or give the reason why it is not watched (watch: { never })',
    );
  return [...faults, ...verbFaults(kind, resource, endpoints)];
}

function verbFaults(kind: string, { verbs }: ResourceLike, endpoints: readonly AnyEndpoint[]): string[] {
  if ('none' in verbs) return [];
  const rows = new Set(Object.values(verbs.verbs).map(({ route }) => route));
  const writes = endpoints.filter(({ on, method }) => on?.[0] === kind && method !== 'GET').map(routeName);
  return [
    ...writes
      .filter((route) => !rows.has(route))
      .map((route) => `${route} has no row in rules/${kind}.ts: add one with the states in which it is allowed`),
    ...[...rows]
      .filter((route) => !writes.includes(route))
      .map((route) => `rules/${kind}.ts has a row for ${route}, which is no endpoint of the kind: remove the row`),
  ];
}

function shows(endpoint: AnyEndpoint, kind: string, resource: ResourceLike): boolean {
  return endpoint.on?.[0] === kind || (endpoint.list && isSchemaOf(endpoint.item, resource));
}

function isSchemaOf(schema: unknown, { answer }: ResourceLike): boolean {
  if (schema === answer) return true;
  // a list of objects that some readers see masked
  const options = typeof schema === 'object' && schema !== null && 'options' in schema ? schema.options : [];
  return Array.isArray(options) && options.includes(answer);
}

/** A path with two ids names an object and its project: otherwise the object of another project would be found. */
function unclearPlace(endpoint: AnyEndpoint, resources: Declared['resources']): string[] {
  const [kind, param] = endpoint.on ?? [];
  const others = [...endpoint.path.matchAll(/:(\w+)/g)].map(([, name]) => name).filter((name) => name !== param);
  const [other] = others;
  if (kind === undefined || other === undefined) return [];
  const resource = resources[kind] ?? {};
  if ('under' in resource && resource.under === other) return [];
  if ('parts' in resource && Array.isArray(resource.parts) && resource.parts.includes(other)) return [];
  return [
    `${routeName(endpoint)} names a project by :${other}, which resource ${kind} does not know: ` +
      `declare under: '${other}', or parts: ['${other}']`,
  ];
}

/** Stops the start of a control plane in which a kind is declared by half. @throws Error with every fault */
export function checkResources(declared: Omit<Declared, 'kinds'>): void {
  const faults = missingDeclarations({ ...declared, kinds });
  if (faults.length > 0) throw new Error(`The API is incomplete:\n${faults.map((one) => `- ${one}`).join('\n')}`);
}
