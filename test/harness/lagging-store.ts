import type { Store } from '../../store/store.ts';

/** A store whose watches can be held back, so that a mirror on it falls behind while everything else goes on. */
export interface LaggingStore {
  store: Store;
  hold(): void;
  release(): void;
}

export function laggingStore(inner: Store): LaggingStore {
  let open = Promise.withResolvers<void>();
  open.resolve();
  async function* watch(...args: Parameters<Store['watch']>): ReturnType<Store['watch']> & AsyncGenerator {
    for await (const batch of inner.watch(...args)) {
      await open.promise;
      yield batch;
    }
  }
  const store = new Proxy(inner, {
    get(target, name) {
      if (name === 'watch') return watch;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return {
    store,
    hold() {
      open = Promise.withResolvers();
    },
    release: () => open.resolve(),
  };
}
