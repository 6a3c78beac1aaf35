import { isUnavailable } from './errors.ts';
import { keys, mayBeginBytes } from './keys.ts';
import type { Revision } from './revision.ts';
import type { Entry, Page, Store } from './store.ts';

const limits = {
  /** Bytes of keys and values that a page should have at most. */
  bytes: 4 * 1024 * 1024,
  /** Bytes that a page may have, however many pages did not come. */
  leastBytes: 256 * 1024,
  /** Keys of a page in the area of bytes, where one value may have 700 KB. */
  keysOfBytes: 16,
} as const;

interface Options {
  /** Most keys of one page. */
  most: number;
  /** The key after which the list goes on, for the last one of a page: it steps over areas that are not wanted. */
  after: (key: string) => string;
  /** All pages are of the revision of the first one. */
  isPinned: boolean;
}

/**
 * Lists everything in a store, page by page. A store bounds a page by its number of keys, but what it takes is the time
 * of its bytes: a page that did not come in time would not come the next time either. So a page that the store did not
 * answer is asked for with half as many keys, down to one. The pages after it have as many keys as are expected, by the
 * page before, to have 4 MiB, or what the first page that came again had.
 */
export class Pages {
  readonly #store: Pick<Store, 'list'>;
  readonly #options: Options;
  /** Most keys that the next page may have. */
  #limit: number;
  /** Bytes that the next page should have at most. */
  #bytes: number = limits.bytes;
  /** The store did not answer for the page before. */
  #hasFailed = false;
  #after: string | undefined;
  #at: Revision | undefined;
  #isLast = false;

  constructor(store: Pick<Store, 'list'>, options: Options) {
    this.#store = store;
    this.#options = options;
    this.#limit = options.most;
  }

  /**
   * The next page; `undefined` after the last. After an error a further call asks for the same page, a smaller one if
   * the store did not answer.
   */
  async next(): Promise<Page | undefined> {
    if (this.#isLast) return undefined;
    const after = this.#after;
    const limit = after !== undefined && mayBeginBytes(after) ? Math.min(this.#limit, limits.keysOfBytes) : this.#limit;
    const page = await this.#list(limit);
    this.#learn(page.entries, limit);
    if (this.#options.isPinned) this.#at ??= page.revision;
    if (page.next === undefined) this.#isLast = true;
    else this.#after = this.#options.after(page.next);
    return page;
  }

  /** All pages. One that the store does not answer is asked for again at once, as long as it can be smaller. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Page, void, void> {
    for (;;) {
      const before = this.#limit;
      try {
        const page = await this.next();
        if (page === undefined) return;
        yield page;
      } catch (error) {
        if (!isUnavailable(error) || this.#limit >= before) throw error;
      }
    }
  }

  async #list(limit: number): Promise<Page> {
    const after = this.#after;
    const at = this.#at;
    try {
      return await this.#store.list(keys.all, {
        limit,
        ...(after !== undefined && { after }),
        ...(at !== undefined && { at }),
      });
    } catch (error) {
      if (isUnavailable(error)) {
        this.#limit = Math.max(1, Math.floor(limit / 2));
        this.#hasFailed = true;
      }
      throw error;
    }
  }

  /** Follows from a page that came, and how many keys it might have had, how many the next one may have. */
  #learn(entries: readonly Entry[], limit: number): void {
    const bytes = entries.reduce((sum, { key, value }) => sum + key.length + value.length, 0);
    if (this.#hasFailed) this.#bytes = Math.min(this.#bytes, Math.max(bytes, limits.leastBytes));
    this.#hasFailed = false;
    const expected = Math.max(1, Math.floor((entries.length * this.#bytes) / Math.max(1, bytes)));
    this.#limit = Math.min(this.#options.most, Math.max(this.#limit, 2 * limit), expected);
  }
}
