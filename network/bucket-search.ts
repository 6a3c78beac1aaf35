import { listKeys, readObject, WrongObject } from './bucket-objects.ts';
import { BucketFailure, troubleOf } from './bucket-trouble.ts';
import type { Trouble } from './bucket-trouble.ts';
import { NotAllowed, openBucket } from './bucket.ts';
import type { BucketPlace } from './bucket.ts';

/** What one search does at most. */
const most = { keys: 10_000, found: 30, atOnce: 4 } as const;

/** Small objects whose keys have an ending. */
export interface Found {
  /** Keys without the prefix of the place; no content: it is longer than expected. */
  objects: { key: string; content?: string }[];
  /** The key to go on after; absent: there are no more. */
  next?: string;
}

/**
 * Reads the objects of a bucket whose keys end with `name`, in the order of their keys: at most 30, among at most 10,000
 * keys. Whoever wants more goes on after `next`.
 *
 * @throws the signal's reason
 */
export async function searchBucket(
  place: BucketPlace,
  { name, after, maxBytes }: { name: string; after: string | undefined; maxBytes: number },
  signal: AbortSignal,
): Promise<Found | { trouble: Trouble }> {
  try {
    using bucket = await openBucket(place);
    const wanted: string[] = [];
    let next = after;
    let hasMore = true;
    for (let seen = 0; hasMore && seen < most.keys && wanted.length < most.found;) {
      const page = await listKeys(bucket, undefined, next, signal);
      hasMore = page.more;
      seen += page.keys.length;
      for (const key of page.keys) {
        if (wanted.length === most.found) {
          hasMore = true;
          break;
        }
        next = key;
        if (key === name || key.endsWith(`/${name}`)) wanted.push(key);
      }
      if (page.keys.length === 0) break;
    }
    const objects: Found['objects'] = wanted.map((key) => ({ key }));
    const left = objects.values();
    const read = async (): Promise<void> => {
      for (const one of left) {
        const content = await readObject(bucket, one.key, maxBytes, signal).catch((error: unknown) => {
          if (error instanceof WrongObject) return undefined;
          throw error;
        });
        if (content !== undefined) one.content = content.toString();
      }
    };
    await Promise.all(Array.from({ length: most.atOnce }, read));
    return { objects, ...(hasMore && next !== undefined && { next }) };
  } catch (error) {
    if (error instanceof BucketFailure) return { trouble: error.trouble };
    if (error instanceof NotAllowed) return { trouble: troubleOf(error, 'list', place) };
    throw error;
  }
}
