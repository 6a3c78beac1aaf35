import type { ComponentType } from 'preact';
import type { Kind } from '../model.ts';

/** What a page gets: the parts of its address. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
}

/** A page of the console: its address, what it shows, and how it is loaded. */
export interface PageDescriptor {
  /** Address after `#/TENANT`: `:name` stands for a part of it, `:name?` for one that may be missing. */
  readonly path: string;
  /** Name of the page until it knows a better one. */
  readonly title: string;
  /** The place in the rail that is marked while the page is shown. */
  readonly place:
    | 'projects'
    | 'databases'
    | 'functions'
    | 'volumes'
    | 'backups'
    | 'templates'
    | 'syncs'
    | 'logs'
    | 'servers'
    | 'activity'
    | 'settings'
    | 'account'
    | 'none';
  /** Kinds whose objects it shows. */
  readonly kinds: readonly (Kind | 'invite')[];
  readonly load: () => Promise<ComponentType<PageProps>>;
}
