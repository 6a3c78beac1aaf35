import type { components } from '../../api-types.d.ts';
import type { ObjectOf } from '../../model.ts';

export type Fn = ObjectOf<'function'>;
export type FnDetail = components['schemas']['FunctionDetail'];
export type FnVersion = components['schemas']['FunctionVersion'];
export type Execution = components['schemas']['Execution'];

/** What a tab of a function gets. */
export interface TabProps {
  readonly it: Fn;
  readonly query: URLSearchParams;
}
