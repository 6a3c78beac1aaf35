import { parseKey } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { InterruptibleStore } from './interruptible-store.ts';

/** The next so many transactions that create an object of the kind are sent together: none was decided after another one. */
export function sendTogether(store: InterruptibleStore, kind: KindName, count: number): void {
  const all = Promise.withResolvers<void>();
  let waiting = 0;
  store.beforeTxn = async ({ if: guards }) => {
    const isCreation = guards.some(({ key, is }) => {
      const meaning = parseKey(key);
      return is === 'absent' && meaning?.area === 'desired' && meaning.kind === kind;
    });
    if (!isCreation) return;
    waiting += 1;
    if (waiting === count) {
      store.beforeTxn = undefined;
      all.resolve();
    }
    await all.promise;
  };
}
