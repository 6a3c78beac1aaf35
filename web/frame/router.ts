import { signal } from '@preact/signals';
import type { ReadonlySignal } from '@preact/signals';
import type { PageDescriptor } from '../pages/page.ts';

/** Where the reader is, as the address after `#` says: `/TENANT/PATH?QUERY`. */
export interface Place {
  readonly tenant: string;
  /** With a slash in front. */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** Addresses of earlier releases, without a tenant. */
const earlier = /^\/(?:$|servers$|applications\/[0-9a-f-]{36}$)/;

/** The place that an address names; an address of an earlier release is of the tenant `known`. */
export function placeOf(hash: string, known: string): Place {
  const [address = '', search = ''] = hash.replace(/^#/, '').split('?', 2);
  const path = address === '' ? '/' : address;
  const query = new URLSearchParams(search);
  if (earlier.test(path)) return { tenant: known, path, query };
  const [, tenant = '', rest = ''] = /^\/([^/]+)(\/.*)?$/.exec(path) ?? [];
  if (tenant === '') return { tenant: known, path, query };
  return { tenant: decoded(tenant), path: rest === '' ? '/' : rest, query };
}

/** The tenant that an address names; `undefined` if it names none. */
export function tenantIn(hash: string): string | undefined {
  const { tenant } = placeOf(hash, '');
  return tenant === '' ? undefined : tenant;
}

/** The parts of a path that a pattern names; `undefined` if it is another path. */
export function matched(pattern: string, path: string): Record<string, string> | undefined {
  const names = pattern.split('/');
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.length > names.length) return undefined;
  const found: Record<string, string> = {};
  for (const [index, name] of names.entries()) {
    const part = parts[index];
    if (!name.startsWith(':')) {
      if (part !== name) return undefined;
    } else if (part !== undefined) found[name.replaceAll(/[:?]/g, '')] = decoded(part);
    else if (!name.endsWith('?')) return undefined;
  }
  return found;
}

/** The page of a path, and the parts of the path that it names. */
export function pageAt(
  pages: readonly PageDescriptor[],
  path: string,
): { page: PageDescriptor; params: Record<string, string> } | undefined {
  const clean = path === '/' ? 'projects' : path.slice(1);
  for (const page of pages) {
    const params = matched(page.path, clean);
    if (params !== undefined) return { page, params };
  }
  return undefined;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a place, as a link has it. `query`: a value that is empty or absent is left out. */
export function hrefOf(
  tenant: string,
  parts: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []));
  const search = new URLSearchParams(given).toString();
  const path = [tenant, ...parts].map((part) => encodeURIComponent(part)).join('/');
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}

/** The address of the page, as it changes. */
export class Router {
  readonly hash: ReadonlySignal<string>;
  readonly #hash = signal(location.hash);
  /** Each asks the reader before a page with unsaved changes is left. */
  readonly #guards = new Set<() => boolean>();
  #leaves = false;

  constructor() {
    this.hash = this.#hash;
    addEventListener('hashchange', () => this.#moved());
    addEventListener('beforeunload', (event) => {
      if (this.#guards.size > 0) event.preventDefault();
    });
  }

  go(href: string): void {
    location.hash = href;
  }

  /** Goes where what was entered leads, which is no loss of it: nobody is asked. */
  leave(href: string): void {
    this.#leaves = true;
    this.go(href);
  }

  /** Changes the address without an entry in the history, as for a filter that is typed. */
  replace(href: string): void {
    history.replaceState(null, '', href);
    this.#hash.value = location.hash;
  }

  /** A page is left only when `guard` agrees, until what is returned is called. */
  readonly protect = (guard: () => boolean): (() => void) => {
    this.#guards.add(guard);
    return () => {
      this.#guards.delete(guard);
    };
  };

  #moved(): void {
    if (location.hash === this.#hash.peek()) return;
    if (!this.#leaves && [...this.#guards].some((agrees) => !agrees())) {
      history.replaceState(null, '', this.#hash.peek());
      return;
    }
    this.#leaves = false;
    this.#hash.value = location.hash;
  }
}
