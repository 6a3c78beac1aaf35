import type { z } from 'zod';
import type { DeepReadonly } from '../deep-readonly.ts';
import type { Resolved } from './fields.ts';

/** A value encrypted by `store/seal.ts`: `<key id>.<nonce>.<ciphertext>`, bound to `for` by its authentication tag. */
export interface SealedValue {
  $sealed: string;
  /** `<kind>/<id>/<field path>` of the object that the secret was given to; copies in children keep it. */
  for: string;
}

/** Commands of an instance that may be secret: what its process is begun with, and what asks whether it is ready. */
export type WordsName = 'command' | 'entrypoint' | 'probe';

/** What the instances of a workload run with, sealed. */
export interface Configuration {
  /**
   * The object that the values were sealed for: `<path>.env.<name>`, `<path>.files.<path of the file>` and
   * `<path>.words.<name>`.
   */
  of: { kind: string; id: string; path: string };
  /** Variables by name. */
  env: Readonly<Record<string, SealedValue>>;
  /** Contents of files by path, in base64. */
  files?: Readonly<Record<string, SealedValue>>;
  /** Further files, by path as UTF-8 text, each of which has a secret of another place in it. */
  made?: readonly { secret: SealedValue; files: (text: string) => Readonly<Record<string, string>> }[];
  /** Commands that the specs of instances do not have, each as a list in JSON. */
  words?: Readonly<Partial<Record<WordsName, SealedValue>>>;
  /** What each reference in the variables stands for; absent: their values are used as they are. */
  references?: Readonly<Record<string, DeepReadonly<Resolved>>>;
}

export interface UniqueName {
  /** Name of the scope within the kind, for example a project id; `all` for one scope per tenant. */
  scope: string;
  name: string;
}

/** Reads the values of one index; `observed` is absent until the object was observed. */
export type IndexOf<D, O> = (desired: D, observed: O | undefined) => string | readonly string[] | undefined;

/**
 * What happens to an object when its environment is cloned. Sealed values need no rule: those of a copied object are
 * sealed anew for its copy, wherever they are.
 */
export type CloneRule<D> =
  | {
      /**
       * Fields that hold ids, as paths from the desired state; `*` stands for every element. The id of an object that
       * is copied, too, becomes the id of its copy; others stay.
       */
      references: readonly string[];
      /** Those of them that lead to what nothing else may have: without a copy of that, the object is not copied. */
      own?: readonly string[];
      /** Removes from the copy what belongs to its source alone. Pure: a repeated copy is the same. */
      reset?: (draft: D, copyId: string) => void;
    }
  /** The object is not copied, for this reason. */
  | { never: string };

/** An object as the rules of its kind read it. */
export interface Kept<D, O> {
  readonly meta: { readonly id: string; readonly createdAt: string; readonly updatedAt: string };
  readonly desired: DeepReadonly<D>;
  readonly observed?: DeepReadonly<O>;
}

/** The newest objects with one value of the index `under` stay. */
export interface Newest<D, O> {
  count: number;
  /** An index of the kind; its name is the kind of the holder, and its values are ids of holders. */
  under: string;
  /** Orders the objects, the newest highest. Absent: by the revision that created them. */
  number?: (it: Kept<D, O>) => number;
  /** Whether the object has ended: until then it stays, however old. Absent: age alone decides. */
  hasEnded?: (it: Kept<D, O>) => boolean;
  /**
   * Which objects stay although they are old, by their holder and all that the holder has, the newest first: it is asked once
   * for all of them. The holder is read again and guarded when an object is deleted. The rule may give its holder the type of
   * that kind.
   */
  unless?(holder: Kept<unknown, unknown>, newestFirst: readonly Kept<D, O>[]): (it: Kept<D, O>) => boolean;
}

/**
 * How long objects stay. Every kind declares it: objects that nothing deletes fill the store. What is not kept any more
 * is deleted by the garbage collector. All rules are pure.
 */
export type Keep<D, O> = (
  | { newest: Newest<D, O>; until?: Until<D, O> }
  | { until: Until<D, O> }
  /** Objects of the kind are no history: the words name what deletes them and so bounds their number. */
  | { untilDeleted: string }
) & {
  /** Kinds of blocking owners that it outlives while they are being deleted: it goes once such an owner is gone. */
  outlivesDeletionOf?: readonly string[];
  /**
   * Kinds of what uses it, each with an index of the name of this kind that has the ids of what it uses: nothing expires
   * that is used.
   */
  usedBy?: readonly string[];
};

/** The instant at which the object expires, in milliseconds of the wall clock; `undefined`: not yet known, or never. */
type Until<D, O> = (it: Kept<D, O>) => number | undefined;

export interface KindDefinition<K extends string, D extends z.ZodType, O extends z.ZodType> {
  kind: K;
  /** Version of the record's form; older records pass through `upgrade` when they are read. */
  version: number;
  /** Defaults are applied by the schema on every read and write, so that comparing never sees a missing default. */
  desired: D;
  observed: O;
  /** Names claimed in the same transaction as the object. They are compared in NFKC and case-folded. */
  unique?: (desired: z.output<D>) => UniqueName[];
  /** Owners that follow from the desired state. A blocking owner takes the object with it. */
  owners?: (desired: z.output<D>) => { kind: string; id: string; blocks: boolean }[];
  /**
   * The objects that this one belongs to: their kind → the index of this kind under which their ids find it. The index
   * reads the desired state alone. `objectsIn` finds what an object holds. A creation moves a marker of each place, so
   * that a caller that needs one of them empty can guard that it stays empty: see `Unit.holdPopulation`.
   */
  populates?: Readonly<Record<string, string>>;
  /**
   * What an object takes of such a place beside being there, by the kind of the place: what is new in it moves the marker,
   * too, so that a caller that takes the same can guard that no other does.
   */
  takes?: Readonly<Record<string, (desired: z.output<D>) => readonly string[]>>;
  /** In-memory indexes of the mirror: index name → values under which the object is found. */
  indexes?: Readonly<Record<string, IndexOf<z.output<D>, z.output<O>>>>;
  /** How long objects stay, or what bounds their number. */
  keep: Keep<z.output<D>, z.output<O>>;
  /** Functions that turn a state of version n into one of version n + 1, by n. Total and pure. */
  upgrade?: Readonly<Record<number, (old: Record<string, unknown>) => Record<string, unknown>>>;
  /** Required for every kind with a field `environment_id`; a test checks that. */
  clone?: CloneRule<z.output<D>>;
  /**
   * What instances that refer to such an object, or to a part of it, run with. What a reference stands for never changes:
   * where the desired state does, another part is referred to.
   */
  configuration?: (
    desired: z.output<D>,
    observed: z.output<O> | undefined,
    of: { id: string; part: string | undefined },
  ) => Configuration;
  /** Objects may have bytes beside their records, which are deleted with them: see `keys.bytes`. */
  bytes?: true;
  /** Objects may have records about their agent, which are deleted with them: `keys.removals`, `keys.connections`. */
  agentRecords?: true;
  /**
   * What a leader of an earlier release may ignore: all of the kind, or these fields as paths (`a.b`). Requests that
   * need anything else of a kind are refused while a leader of an earlier release does not know it: see `gapOf`.
   */
  ignorable?: true | readonly string[];
  /** Finalizers that the object carries from its creation: names of registered controllers, or `agent`. */
  finalizers?: readonly string[];
}

/** Declares a kind. What follows from the declaration: validation, uniqueness, ownership, indexes, upgrades. */
export function defineKind<const K extends string, D extends z.ZodType, O extends z.ZodType>(
  definition: KindDefinition<K, D, O>,
): KindDefinition<K, D, O> {
  return definition;
}
