import { z } from 'zod';

/** The instance that has an address of a bridge from some time on, until another one has it. */
export const Tenure = z.object({
  address: z.string().max(64),
  workload: z.string().max(64),
  instance: z.string().max(64),
  /** Wall time in milliseconds. */
  from: z.number(),
});
export type Tenure = z.infer<typeof Tenure>;

const mostTenures = 2_048;

/** Which instance had which address when: a request is known to the log by the address that it went to. */
export class AddressBook {
  /** The oldest first. */
  #all: Tenure[] = [];
  #byAddress = new Map<string, Tenure[]>();

  get all(): readonly Tenure[] {
    return this.#all;
  }

  /** Holds what another one holds. */
  replace(other: AddressBook): void {
    this.#all = other.#all;
    this.#byAddress = other.#byAddress;
  }

  /** Returns false if that is known already. */
  enter(tenure: Tenure): boolean {
    const own = this.#byAddress.get(tenure.address) ?? [];
    const last = own.at(-1);
    if (last?.instance === tenure.instance && last.workload === tenure.workload) return false;
    this.#all.push(tenure);
    this.#byAddress.set(tenure.address, [...own, tenure]);
    if (this.#all.length > mostTenures) this.#forgetOldest();
    return true;
  }

  /** The instance that had the address when the request was over. */
  at(address: string, time: number): Tenure | undefined {
    const own = this.#byAddress.get(address);
    return own?.findLast(({ from }) => from <= time) ?? own?.[0];
  }

  /** A tenure that was followed by another one goes before one that may last. */
  #forgetOldest(): void {
    const isLast = (it: Tenure): boolean => this.#byAddress.get(it.address)?.at(-1) === it;
    const out = this.#all.find((it) => !isLast(it)) ?? this.#all[0];
    if (out === undefined) return;
    this.#all = this.#all.filter((it) => it !== out);
    const left = (this.#byAddress.get(out.address) ?? []).filter((it) => it !== out);
    if (left.length > 0) this.#byAddress.set(out.address, left);
    else this.#byAddress.delete(out.address);
  }
}
