import type { z } from 'zod';
import type { TenantView } from '../store/mirror.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import type { RequestContext } from './context.ts';
import type { Keep, Kept } from './kept.ts';
import type { ListMeta } from './paging.ts';
import type { RouteName } from './permissions.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Kinds that a path can point at. */
export type SubjectKind =
  | 'project'
  | 'member'
  | 'invite'
  | 'environment'
  | 'server'
  | 'application'
  | 'deployment'
  | 'service_key'
  | 'session'
  | 'user'
  | 'settings';

/** What a handler answers with: a value, or JSON that is kept. `undefined` is 204. */
export type Reply<T> = T | Kept<T>;

/** One page of a list, serialised. */
export interface PageReply<T> {
  readonly items: readonly Kept<T>[];
  readonly meta: ListMeta;
}

/** What a handler gets beside the context; `it` is the object that the path points at. */
export interface Input<K extends SubjectKind, Q, B> {
  it: ReadonlyResource<K>;
  query: Q;
  body: B;
}

type Output<S extends z.ZodType | undefined> = S extends z.ZodType ? z.output<S> : undefined;
/** The part of a route's name after its method. */
type PathOf<N> = N extends `${Method} ${infer P}` ? P : never;

/** How `?wait=` looks at the object of an answer. */
export interface Settle<R> {
  isSettled(view: TenantView, id: string): boolean;
  /** The object as it is now; `undefined` if it is gone. */
  answer(by: { view: TenantView; keep: Keep }, id: string): Kept<R> | undefined;
}

interface Common<K extends SubjectKind> {
  /** Below `/<tenant>/api/v1`, as its row in the table of permissions says it. */
  path: PathOf<RouteName>;
  summary: string;
  /**
   * Kind and path parameter of the object that is loaded and judged before the handler runs; of the settings, of which
   * there is one, no parameter.
   */
  on?: readonly [kind: K, param: string];
  /** Where the project is named whose roles decide, if the path does not point at an object. */
  projectFrom?: 'body.project_id' | 'query.projectId';
}

export interface EndpointSpec<
  K extends SubjectKind,
  Q extends z.ZodType | undefined,
  B extends z.ZodType | undefined,
  R extends z.ZodType | undefined,
> extends Common<K> {
  method: Method;
  query?: Q;
  body?: B;
  /** The body is a form with one file of at most so many bytes; its schema is `UploadBody`. */
  upload?: { maxBytes: number };
  /** Fields of the object that a PUT may carry and that change nothing. */
  readOnly?: readonly string[];
  /** No schema: 204. */
  response?: R;
  /** Default 200. */
  status?: 200 | 201;
  /** Counts against the smaller of the two rate limits. */
  heavy?: true;
  /** Its answer holds secrets unless it is masked: it is not given before the audit log has it. */
  givesSecrets?: true;
  /** May take long: other writers of the object do not wait for it. */
  waitsForAgent?: true;
  settle?: Settle<Output<R>>;
  handle(ctx: RequestContext, input: Input<K, Output<Q>, Output<B>>): Promise<Reply<Output<R>>>;
}

export interface ListSpec<K extends SubjectKind, Q extends z.ZodType, R extends z.ZodType> extends Common<K> {
  query: Q;
  item: R;
  /** What is listed is the caller's own, also for admins. */
  ownOnly?: true;
  /** What is listed depends on the session that asks, too. */
  perSession?: true;
  /** What is listed depends on the time, too: an answer is not kept. */
  ofNow?: true;
  handle(ctx: RequestContext, input: Input<K, z.output<Q>, undefined>): Promise<PageReply<z.output<R>>>;
}

/** An endpoint as a value. The table of all of them mounts the server, writes the OpenAPI document and types clients. */
export type Endpoint<
  K extends SubjectKind = SubjectKind,
  Q extends z.ZodType | undefined = z.ZodType | undefined,
  B extends z.ZodType | undefined = z.ZodType | undefined,
  R extends z.ZodType | undefined = z.ZodType | undefined,
> = EndpointSpec<K, Q, B, R> & { list: false };

/** An endpoint that answers with pages. */
export type ListEndpoint<
  K extends SubjectKind = SubjectKind,
  Q extends z.ZodType = z.ZodType,
  R extends z.ZodType = z.ZodType,
> = ListSpec<K, Q, R> & { list: true; method: 'GET'; upload?: never };

/** Bytes that are answered as they are, and not in the envelope. */
export interface Download {
  bytes: Buffer;
  type: string;
  /** For whoever saves it. */
  fileName: string;
  /** Tells these bytes from others. */
  etag: string;
}

export interface DownloadSpec<K extends SubjectKind> extends Common<K> {
  /** Types that the bytes can be of. */
  types: readonly string[];
  handle(ctx: RequestContext, input: Pick<Input<K, undefined, undefined>, 'it'>): Promise<Download>;
}

/** What other endpoints have and one that answers with bytes has not. */
type Unused = 'query' | 'body' | 'upload' | 'readOnly' | 'response' | 'status' | 'heavy' | 'settle';

/** An endpoint that answers with bytes. */
export type DownloadEndpoint<K extends SubjectKind = SubjectKind> = DownloadSpec<K> & { [F in Unused]?: never } & {
  list: false;
  method: 'GET';
};

export type AnyEndpoint = Endpoint | ListEndpoint | DownloadEndpoint;

/** A handler that answers with another shape than `response` does not compile. */
export function defineEndpoint<
  K extends SubjectKind,
  Q extends z.ZodType | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
  R extends z.ZodType | undefined = undefined,
>(spec: EndpointSpec<K, Q, B, R>): Endpoint<K, Q, B, R> {
  return { ...spec, list: false };
}

export function defineList<K extends SubjectKind, Q extends z.ZodType, R extends z.ZodType>(
  spec: ListSpec<K, Q, R>,
): ListEndpoint<K, Q, R> {
  return { ...spec, list: true, method: 'GET' };
}

export function defineDownload<K extends SubjectKind>(spec: DownloadSpec<K>): DownloadEndpoint<K> {
  return { ...spec, list: false, method: 'GET' };
}

export function isDownload(endpoint: AnyEndpoint): endpoint is DownloadEndpoint {
  return 'types' in endpoint;
}

/** Name of an endpoint's row in the table of permissions. */
export function routeName(endpoint: Pick<AnyEndpoint, 'method' | 'path'>): string {
  return `${endpoint.method} ${endpoint.path}`;
}
