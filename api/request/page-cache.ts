import type { Revision } from '../../store/revision.ts';

const maxBytes = 16 * 1024 * 1024;

/** Whole answers of lists, each valid for one revision of the mirror. */
export interface PageCache {
  get(key: string, revision: Revision): Buffer | undefined;
  set(key: string, revision: Revision, body: Buffer): void;
}

/** Keeps at most 16 MiB; it is emptied when the revision changes. */
export function createPageCache(): PageCache {
  const bodies = new Map<string, Buffer>();
  let at: Revision | undefined;
  let bytes = 0;
  const clear = (): void => {
    bodies.clear();
    bytes = 0;
  };
  return {
    get: (key, revision) => (at === revision ? bodies.get(key) : undefined),
    set(key, revision, body) {
      if (at !== revision) clear();
      at = revision;
      if (body.length > maxBytes) return;
      if (bytes + body.length > maxBytes) clear();
      bytes += body.length - (bodies.get(key)?.length ?? 0);
      bodies.set(key, body);
    },
  };
}
