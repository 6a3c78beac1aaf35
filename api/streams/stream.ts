import type { z } from 'zod';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Principal } from '../auth/principal.ts';
import type { Access } from '../rights/authorize.ts';
import type { ReadingServices } from '../endpoint/context.ts';
import type { ResourceKind } from '../resources/resources.ts';
import type { RouteName } from '../rights/permissions.ts';
import type { ChangeFeed } from './change-feed.ts';
import type { Channel } from './channel.ts';
import type { LogHub } from './log-hub.ts';

/** What a stream may use. */
export interface StreamContext extends ReadingServices {
  tenant: string;
  view: TenantView;
  principal: Principal;
  access: Access;
  feed: ChangeFeed;
  hub: LogHub;
}

/** Input of a stream: the object that its path names, its query, and the channel that it writes to. */
export interface StreamInput<K extends ResourceKind, Q> {
  it: ReadonlyResource<K>;
  query: Q;
  channel: Channel;
}

type PathOf<N> = N extends `WS ${infer P}` ? P : never;

export interface StreamSpec<K extends ResourceKind, Q extends z.ZodType> {
  path: PathOf<RouteName>;
  summary: string;
  on?: readonly [kind: K, param: string];
  query: Q;
  /** Refuses, before the upgrade, what cannot be streamed. @throws ApiError */
  check?(ctx: Omit<StreamContext, 'access'>, input: Omit<StreamInput<K, z.output<Q>>, 'channel'>): void;
  /** Runs until the stream ends itself or the channel's signal aborts. Returns the reason of its end. */
  run(ctx: StreamContext, input: StreamInput<K, z.output<Q>>): Promise<string>;
}

/** A stream as a value, like an endpoint. */
export type Stream<K extends ResourceKind = ResourceKind, Q extends z.ZodType = z.ZodType> = StreamSpec<K, Q>;

export function defineStream<K extends ResourceKind, Q extends z.ZodType>(spec: StreamSpec<K, Q>): Stream<K, Q> {
  return spec;
}
