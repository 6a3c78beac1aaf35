import type { DeepReadonly } from '../deep-readonly.ts';
import type { SealedValue } from '../kinds/define.ts';
import type { Guard } from '../store.ts';

/** A file of a commit that declares objects. */
export interface DeclaringFile {
  readonly path: string;
  readonly content: string;
}

/** What a commit declares, and how it is brought about. */
export interface CommitToApply {
  tenant: string;
  project: string;
  /** Where objects are that name no environment; absent: in the default one of the project. */
  environment: string | undefined;
  /** The service key that it is applied with. */
  key: string;
  /** Who declares, and what the objects belong to. */
  manager: string;
  files: readonly DeclaringFile[];
  /** The sync whose commit it is, with what stands for `${vars.NAME}` in its files. */
  sync: {
    id: string;
    variables?: Readonly<Record<string, string>> | undefined;
    secrets?: DeepReadonly<Record<string, SealedValue>> | undefined;
  };
  prune: boolean;
  /** Keys of steps that may lose data, or overwrite what others have set. */
  force: readonly string[];
  /** What others changed of what the manager alone declares is changed back without being forced, where no data is lost. */
  corrects: boolean;
  isDryRun: boolean;
  /** Fails once another replica leads. */
  fence: Guard;
  signal: AbortSignal;
}

/** A step between what a commit declares and what is there. */
export interface CommitStep {
  readonly action: 'create' | 'update' | 'replace' | 'delete' | 'unchanged';
  readonly key: string;
  /** The name that it has now, or that of the object that it replaces. */
  readonly renamed_from: string | null;
  readonly fields: readonly { readonly field: string; readonly by_hand: boolean }[];
  readonly loses_data: string | null;
  readonly waits_for: string | null;
}

export interface CommitPlan {
  readonly changes: boolean;
  readonly steps: readonly CommitStep[];
  readonly needs_force: readonly string[];
}

/** Why a commit is not planned or applied as a whole. Of one that is more than a transaction, a first part may be done. */
export interface Refused {
  /** In words for its author. */
  readonly refused: string;
  /** Requests write too fast: it says nothing of the commit, which may be applied later. */
  readonly isPassing: boolean;
}

/** Plans a commit as a whole, or applies it. */
export type ApplyCommit = (it: CommitToApply) => Promise<{ plan: CommitPlan } | Refused>;
