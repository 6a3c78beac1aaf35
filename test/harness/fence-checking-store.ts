import { keys } from '../../store/keys.ts';
import type { Txn, TxnResult } from '../../store/store.ts';
import { ForwardingStore } from './forwarding-store.ts';

const leadership = keys.leader('controllers');

/**
 * A real store as the controllers of one replica use it. It notes the writes that a deposed leader could still make:
 * transactions without a guard that the leader key is the one of the term. A campaign for the leadership is none.
 */
export class FenceCheckingStore extends ForwardingStore {
  /** First key of each transaction that carries no fence. */
  readonly unfenced: string[] = [];

  override txn(txn: Txn): Promise<TxnResult> {
    const written = txn.then.map((write) => ('put' in write ? write.put : write.delete));
    const isFenced = txn.if.some((guard) => guard.key === leadership && guard.is === 'at');
    if (!isFenced && written[0] !== undefined && !written.includes(leadership)) this.unfenced.push(written[0]);
    return super.txn(txn);
  }
}
