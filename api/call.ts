import type { IncomingHttpHeaders } from 'node:http';
import type { TenantView } from '../store/mirror.ts';
import type { Repository } from '../store/repo.ts';
import type { Principal } from './auth/principal.ts';
import type { RequestInfo } from './context.ts';
import type { Headers } from './respond.ts';
import type { Route } from './router.ts';

/** A request whose route and caller are known. */
export interface Call {
  tenant: string;
  view: TenantView;
  repo: Repository;
  route: Route;
  params: ReadonlyMap<string, string>;
  /** Below `/api/v1`, with ids. */
  path: string;
  /** Without `?`. */
  search: string;
  headers: IncomingHttpHeaders;
  body: unknown;
  request: RequestInfo;
  caller: Principal | undefined;
  /** Aborts when the client goes away; made when it is asked for, since few need it. */
  signal: () => AbortSignal;
}

export interface Outcome {
  status: number;
  /** Absent: the status says so. */
  body?: string | Buffer;
  /** Of the body, where it is not JSON. */
  type?: string;
  /** Take the place of the usual ones. */
  headers?: Headers;
  etag?: string;
}
