import type { Application } from '../../model.ts';

/** What a tab of an application gets. */
export interface TabProps {
  readonly it: Application;
  readonly query: URLSearchParams;
}
