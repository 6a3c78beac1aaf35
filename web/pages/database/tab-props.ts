import type { ObjectOf } from '../../model.ts';

export type Database = ObjectOf<'database'>;

/** What a tab of a database gets. */
export interface TabProps {
  readonly it: Database;
  readonly query: URLSearchParams;
}
