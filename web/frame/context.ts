import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Signal } from '@preact/signals';
import type { Login } from '../api.ts';
import type { Kind, ObjectOf, User } from '../model.ts';
import type { Collection, Collections, Reading } from './collections.ts';
import type { Messages } from './messages.ts';
import { hrefOf } from './router.ts';
import type { Rights } from './rights.ts';
import type { Router } from './router.ts';
import type { Store } from './store.ts';
import type { Watch } from './watch.ts';

/** What every page uses. */
export interface Console {
  readonly login: Login;
  readonly me: Signal<User | undefined>;
  readonly store: Store;
  readonly collections: Collections;
  readonly rights: Rights;
  readonly watch: Watch;
  readonly router: Router;
  readonly messages: Messages;
  /** Ends the session in this tab; `reason` is shown where one signs in. */
  readonly end: (reason?: string) => void;
}

export const ConsoleContext = createContext<Console | undefined>(undefined);

export function useConsole(): Console {
  const found = useContext(ConsoleContext);
  if (found === undefined) throw new Error('A page is shown outside the console');
  return found;
}

/** The address of a place of this tenant. */
export function useHref(): (parts: readonly string[], query?: Record<string, string | undefined>) => string {
  const { login } = useConsole();
  return (parts, query) => hrefOf(login.tenant, parts, query);
}

/** All objects of a list, and whether it has been read. */
export function useList<K extends Kind>(
  collection: Collection<K>,
  kind: K,
): { objects: readonly ObjectOf<K>[]; reading: Reading } {
  const { store, collections } = useConsole();
  return { reading: collections.reading(collection), objects: [...store.all(kind).values()] };
}
