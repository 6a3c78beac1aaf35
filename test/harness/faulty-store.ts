import { unavailable } from '../../store/errors.ts';
import type { Guard, Txn, TxnResult } from '../../store/store.ts';
import { ForwardingStore } from './forwarding-store.ts';

/**
 * What happens to one transaction: it fails before it commits, it commits and its answer is lost, or it commits and a
 * hook runs before it is answered. What the hook throws is the answer.
 */
export type Fault = 'fail-before-commit' | 'lose-answer' | ((committed: TxnResult) => void | Promise<void>);

/** A real store with faults at chosen transactions. All users of one instance count together. */
export class FaultyStore extends ForwardingStore {
  readonly #faults = new Map<number, Fault>();
  /** Guards that did not hold, in the order of the transactions. */
  readonly failedGuards: Guard[] = [];
  #transactions = 0;

  /** Transactions asked for so far, whatever became of them. */
  get transactions(): number {
    return this.#transactions;
  }

  /** The `k`-th transaction from the making of this store on, counted from 1, gets the fault. */
  at(k: number, fault: Fault): this {
    this.#faults.set(k, fault);
    return this;
  }

  /** No faults from here on; counting goes on. */
  heal(): void {
    this.#faults.clear();
  }

  override async txn(txn: Txn): Promise<TxnResult> {
    const k = ++this.#transactions;
    const fault = this.#faults.get(k);
    if (fault === 'fail-before-commit') throw unavailable(`transaction ${k} was chosen to fail`);
    const result = await super.txn(txn);
    if (!result.committed) this.failedGuards.push(...result.failed.map(({ guard }) => guard));
    if (fault === 'lose-answer') throw unavailable(`the answer to transaction ${k} was chosen to be lost`);
    if (fault !== undefined) await fault(result);
    return result;
  }
}
