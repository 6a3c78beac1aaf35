import type { IncomingHttpHeaders } from 'node:http';
import type { TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { Principal } from '../auth/principal.ts';
import type { RequestInfo } from '../ground/dependencies.ts';
import type { Headers } from '../http/respond.ts';
import type { Route } from './router.ts';

/** A request whose route and caller are known. */
export interface RoutedRequest {
  tenant: string;
  view: TenantView;
  repo: Repository;
  route: Route;
  params: ReadonlyMap<string, string>;
  /** Path below `/api/v1`, with ids in it. */
  path: string;
  /** The query, without `?`. */
  search: string;
  headers: IncomingHttpHeaders;
  body: unknown;
  request: RequestInfo;
  caller: Principal | undefined;
  /** Aborts when the client disconnects; it is made on demand, since few handlers need it. */
  signal: () => AbortSignal;
}

export interface Outcome {
  status: number;
  /** Absent: the status is the whole answer. */
  body?: string | Buffer;
  /** Media type of the body, if that is not JSON. */
  type?: string;
  /** Headers that replace the usual ones. */
  headers?: Headers;
  etag?: string;
}
