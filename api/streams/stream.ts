import type { z } from 'zod';
import type { ServerSample } from '../../agent-protocol/metrics.ts';
import type { TrafficSample } from '../../agent-protocol/traffic.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Principal } from '../auth/principal.ts';
import type { Access } from '../rights/authorize.ts';
import type { ReadingServices } from '../endpoint/context.ts';
import type { ResourceKind } from '../resources/resources.ts';
import type { RequestInfo } from '../ground/dependencies.ts';
import type { Permission, RouteName } from '../rights/permissions.ts';
import type { ChangeFeed } from './change-feed.ts';
import type { Channel } from './channel.ts';
import type { LogHub } from './log-hub.ts';
import type { SampleHub } from './sample-hub.ts';

/** What a stream may use. */
export interface StreamContext extends ReadingServices {
  tenant: string;
  view: TenantView;
  principal: Principal;
  access: Access;
  request: RequestInfo;
  feed: ChangeFeed;
  hub: LogHub;
  samples: SampleHub<ServerSample>;
  traffic: SampleHub<TrafficSample>;
}

/** Input of a stream: the object that its path names, its parameters, its query, and the channel that it writes to. */
export interface StreamInput<K extends ResourceKind, Q> {
  it: ReadonlyResource<K>;
  params: ReadonlyMap<string, string>;
  query: Q;
  channel: Channel;
  /**
   * From now on the stream ends with this right to the object, and with the object itself, in place of the right to its
   * path. The channel is closed when this returns if the right is not there now.
   */
  rest: (on: { permission: Permission; it: ReadonlyResource<ResourceKind> }) => void;
}

type PathOf<N> = N extends `WS ${infer P}` ? P : never;

export interface StreamSpec<K extends ResourceKind, Q extends z.ZodType> {
  path: PathOf<RouteName>;
  summary: string;
  on?: readonly [kind: K, param: string];
  query: Q;
  /** The reader sends messages: {@link Channel.messages}. */
  reads?: true;
  /** Refuses, before the upgrade, what cannot be streamed. @throws ApiError */
  check?(ctx: Omit<StreamContext, 'access'>, input: Pick<StreamInput<K, z.output<Q>>, 'it' | 'query'>): void;
  /** Runs until the stream ends itself or the channel's signal aborts. Returns the reason of its end. */
  run(ctx: StreamContext, input: StreamInput<K, z.output<Q>>): Promise<string>;
}

/** A stream as a value, like an endpoint. */
export type Stream<K extends ResourceKind = ResourceKind, Q extends z.ZodType = z.ZodType> = StreamSpec<K, Q>;

export function defineStream<K extends ResourceKind, Q extends z.ZodType>(spec: StreamSpec<K, Q>): Stream<K, Q> {
  return spec;
}
