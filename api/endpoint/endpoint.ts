import type { z } from 'zod';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from './context.ts';
import type { Kept, ListMeta, Reply } from '../ground/cached-json.ts';
import type { RouteName } from '../rights/permissions.ts';
import type { Settle, SettleEach } from '../resources/resource.ts';
import type { ResourceKind } from '../resources/resources.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** One page of a list, serialised. */
export interface PageReply<T> {
  readonly items: readonly Kept<T>[];
  readonly meta: ListMeta;
}

/** What a handler gets besides the context; `it` is the object that the path names. */
export interface Input<K extends ResourceKind, Q, B> {
  it: ReadonlyResource<K>;
  query: Q;
  body: B;
}

type Output<S extends z.ZodType | undefined> = S extends z.ZodType ? z.output<S> : undefined;
/** The part of a route's name after its method. */
export type PathOf<N> = N extends `${Method} ${infer P}` ? P : never;

interface Common<K extends ResourceKind> {
  /** Path below `/<tenant>/api/v1`, as in the table of permissions. */
  path: PathOf<RouteName>;
  summary: string;
  /**
   * Kind and path parameter of the object that is loaded and judged before the handler runs. A kind with a single
   * object per tenant has no parameter.
   */
  on?: readonly [kind: K, param: string];
  /**
   * Where the request names the project whose roles decide, if the path names none. `body.backed_up`: it names an object of
   * it, in `database_id`, `volume_id` or `application_id`.
   */
  projectFrom?: 'body.project_id' | 'body.backed_up' | 'query.projectId';
}

export interface EndpointSpec<
  K extends ResourceKind,
  Q extends z.ZodType | undefined,
  B extends z.ZodType | undefined,
  R extends z.ZodType | undefined,
> extends Common<K> {
  method: Method;
  query?: Q;
  body?: B;
  /** The body is a form with one file of at most `maxBytes`; its schema is `UploadBody`. */
  upload?: { maxBytes: number };
  /**
   * The body is JSON, or a form with one file of at most `maxBytes` that the handler reads as it comes: the field `file` of its
   * schema, a `StreamedFile`.
   */
  streamed?: { maxBytes: number };
  /** The body is given to the handler as it came in, with the headers; its schema is `RawBody`. */
  raw?: { maxBytes: number };
  /** Fields of the object that a PUT may carry without effect. */
  readOnly?: readonly string[];
  /** Absent: 204. */
  response?: R;
  /** Default 200. */
  status?: 200 | 201;
  /** Counts against the smaller of the two rate limits. */
  heavy?: true;
  /** The answer contains secrets unless it is masked: it is sent only after the audit log has recorded it. */
  givesSecrets?: true;
  /** The path names the account of the caller: `If-Match` is judged by that. */
  ofCaller?: true;
  /** It acts without a transaction, such as a call of a function: a repeated `Idempotency-Key` must not act again. */
  actsOnce?: true;
  /** The handler may take long: other writers of the object do not wait for it. */
  waitsForAgent?: true;
  /** How `?wait=` looks at the objects of the answer; at the one that the path names, where the answer has no id. */
  settle?: Settle<Output<R>> | SettleEach<Output<R>> | undefined;
  handle(ctx: RequestContext, input: Input<K, Output<Q>, Output<B>>): Promise<Reply<Output<R>>>;
}

/** What a list's query parses to. Fields that are in the schema of some lists only are optional. */
type Parsed<Q extends z.ZodType> =
  Q extends z.ZodObject<infer S>
    ? { [F in keyof S]: Exclude<S[F], undefined> extends z.ZodType<infer T> ? T : never }
    : z.output<Q>;

export interface ListSpec<K extends ResourceKind, Q extends z.ZodType, R extends z.ZodType> extends Common<K> {
  query: Q;
  item: R;
  /** The list has only the caller's own objects, for admins too. */
  ownOnly?: true;
  /** The list also depends on the session of the caller. */
  perSession?: true;
  /** The list also depends on the time, so that an answer is not kept. */
  ofNow?: true;
  handle(ctx: RequestContext, input: Input<K, Parsed<Q>, undefined>): Promise<PageReply<z.output<R>>>;
}

/**
 * An endpoint as a value. The table of endpoints mounts the server, writes the OpenAPI document and types the clients.
 */
export type Endpoint<
  K extends ResourceKind = ResourceKind,
  Q extends z.ZodType | undefined = z.ZodType | undefined,
  B extends z.ZodType | undefined = z.ZodType | undefined,
  R extends z.ZodType | undefined = z.ZodType | undefined,
> = EndpointSpec<K, Q, B, R> & { list: false };

/** An endpoint that answers with pages. */
export type ListEndpoint<
  K extends ResourceKind = ResourceKind,
  Q extends z.ZodType = z.ZodType,
  R extends z.ZodType = z.ZodType,
> = ListSpec<K, Q, R> & {
  list: true;
  method: 'GET';
  upload?: never;
  streamed?: never;
  raw?: never;
  ofCaller?: never;
};

/** Bytes that are sent as they are, without the envelope. */
export interface Download {
  bytes: Buffer;
  type: string;
  /** Name under which the client may save it. */
  fileName: string;
  /** Identifies these bytes. */
  etag: string;
}

export interface DownloadSpec<K extends ResourceKind> extends Common<K> {
  /** Media types that the bytes can have. */
  types: readonly string[];
  handle(ctx: RequestContext, input: Pick<Input<K, undefined, undefined>, 'it'>): Promise<Download>;
}

/** Fields of other endpoints that an endpoint answering with bytes does not have. */
type Unused =
  | 'query'
  | 'body'
  | 'upload'
  | 'streamed'
  | 'raw'
  | 'readOnly'
  | 'response'
  | 'status'
  | 'heavy'
  | 'ofCaller'
  | 'settle';

/** An endpoint that answers with bytes. */
export type DownloadEndpoint<K extends ResourceKind = ResourceKind> = DownloadSpec<K> & { [F in Unused]?: never } & {
  list: false;
  method: 'GET';
};

export type AnyEndpoint = Endpoint | ListEndpoint | DownloadEndpoint;

/** A handler that answers with another shape than `response` does not compile. */
export function defineEndpoint<
  K extends ResourceKind,
  Q extends z.ZodType | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
  R extends z.ZodType | undefined = undefined,
>(spec: EndpointSpec<K, Q, B, R>): Endpoint<K, Q, B, R> {
  return { ...spec, list: false };
}

export function defineList<K extends ResourceKind, Q extends z.ZodType, R extends z.ZodType>(
  spec: ListSpec<K, Q, R>,
): ListEndpoint<K, Q, R> {
  return { ...spec, list: true, method: 'GET' };
}

export function defineDownload<K extends ResourceKind>(spec: DownloadSpec<K>): DownloadEndpoint<K> {
  return { ...spec, list: false, method: 'GET' };
}

export function isDownload(endpoint: AnyEndpoint): endpoint is DownloadEndpoint {
  return 'types' in endpoint;
}

/** Name of an endpoint's row in the table of permissions. */
export function routeName(endpoint: Pick<AnyEndpoint, 'method' | 'path'>): string {
  return `${endpoint.method} ${endpoint.path}`;
}
