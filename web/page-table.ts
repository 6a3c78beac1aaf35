import type { Kind } from './model.ts';

interface Page {
  /** The address of the page after `#`; its group is what the page is about. */
  path: RegExp;
  /** Kinds whose objects it shows. */
  shows: readonly (Kind | 'invite')[];
}

/** Every page that an address names. */
export const pages = {
  board: { path: /^\/$/, shows: ['project', 'application', 'environment', 'server'] },
  servers: { path: /^\/servers$/, shows: ['server', 'application'] },
  application: {
    path: /^\/applications\/([0-9a-f-]{36})$/,
    shows: ['application', 'deployment', 'project', 'environment', 'server'],
  },
  invite: { path: /^\/(?:[a-z][a-z0-9-]*)\/invites\/([\w-]+)$/, shows: ['invite', 'project'] },
} as const satisfies Record<string, Page>;

export type PageName = keyof typeof pages;

/** The page that an address names, and what it is about; `undefined` for an unknown address. */
export function pageAt(path: string): { name: PageName; about: string } | undefined {
  for (const name of Object.keys(pages) as PageName[]) {
    const found = pages[name].path.exec(path);
    if (found !== null) return { name, about: found[1] ?? '' };
  }
  return undefined;
}
