import type { z } from 'zod';

/** A value encrypted by `store/seal.ts`: `<key id>.<nonce>.<ciphertext>`, bound to `for` by its authentication tag. */
export interface SealedValue {
  $sealed: string;
  /** `<kind>/<id>/<field path>` of the object that the secret was given to; copies in children keep it. */
  for: string;
}

export interface UniqueName {
  /** Name of the scope within the kind, for example a project id; `all` for one scope per tenant. */
  scope: string;
  name: string;
}

/** Reads the values of one index; what is observed is absent until it was. */
export type IndexOf<D, O> = (desired: D, observed: O | undefined) => string | readonly string[] | undefined;

/**
 * What becomes of an object when its environment is cloned. Sealed values need no word: those of a copied object are
 * sealed anew for its copy, wherever they are.
 */
export type CloneRule<D> =
  | {
      /**
       * Fields that hold ids, as paths from the desired state; `*` stands for every element. An id of something that is
       * copied, too, becomes the id of its copy; others stay.
       */
      references: readonly string[];
      /** Takes out of the copy what belongs to its source alone. Pure: made again, a copy is the same. */
      reset?: (draft: D, copyId: string) => void;
    }
  /** It is not copied: why. */
  | { never: string };

export interface KindDefinition<K extends string, D extends z.ZodType, O extends z.ZodType> {
  kind: K;
  /** Version of the record's form; older records pass through `upgrade` when they are read. */
  version: number;
  /** Defaults are applied by the schema on every read and write, so that comparing never sees a missing default. */
  desired: D;
  observed: O;
  /** Names claimed in the same transaction as the object. Compared NFKC and case-folded. */
  unique?: (desired: z.output<D>) => UniqueName[];
  /** Owners that follow from the desired state. A blocking owner takes the object with it. */
  owners?: (desired: z.output<D>) => { kind: string; id: string; blocks: boolean }[];
  /**
   * What the object lies in: kind → id. Each creation there moves a marker, so that whoever must find a place empty can
   * guard that it stays so. See `Unit.holdPopulation`.
   */
  populates?: Readonly<Record<string, (desired: z.output<D>) => string | undefined>>;
  /** In-memory indexes of the mirror: index name → values under which the object is found. */
  indexes?: Readonly<Record<string, IndexOf<z.output<D>, z.output<O>>>>;
  /** Version n → form of version n + 1. Total and pure. */
  upgrade?: Readonly<Record<number, (old: Record<string, unknown>) => Record<string, unknown>>>;
  /** Every kind of an environment says it: a field `environment_id` without it is a fault that a test finds. */
  clone?: CloneRule<z.output<D>>;
  /** It may have bytes beside its records, which go with it: see `keys.bytes`. */
  bytes?: true;
  /** Finalizers that the object carries from its creation: names of registered controllers, or `agent`. */
  finalizers?: readonly string[];
}

/** Declares a kind. What follows from the declaration: validation, uniqueness, ownership, indexes, upgrades. */
export function defineKind<const K extends string, D extends z.ZodType, O extends z.ZodType>(
  definition: KindDefinition<K, D, O>,
): KindDefinition<K, D, O> {
  return definition;
}
