import { z } from 'zod';
import { Sealed } from './fields.ts';

/** Longest key of a declared object: a word for its kind, and the names of its environment and of itself. */
export const maxKeyChars = 256;

/** Most managers that declare fields of one object. */
export const maxManagers = 4;

const Declared = z.object({
  /** Who applied it. */
  manager: z.string().min(1).max(100),
  /** What it was applied with: an object that is not in it any more can be pruned. */
  set: z.string().min(1).max(100).optional(),
  /** Fields that it declares, by their names in the API. */
  fields: z.array(z.string()).max(60),
  /** The leaves of these fields as they were applied last, as JSON or sealed: one that differs now was changed by another. */
  leaves: z.record(z.string(), z.union([z.string(), Sealed])),
});
export type Declared = z.infer<typeof Declared>;

/** What managers have applied of an object; absent: none. */
export const Declarations = z.array(Declared).min(1).max(maxManagers).optional();

/** The fields of `declarations`, for kinds of which only the API acts on them. */
export const ofDeclarations = [
  'declarations',
  'declarations.*.manager',
  'declarations.*.set',
  'declarations.*.fields',
  'declarations.*.leaves',
  'declarations.*.leaves.*.$sealed',
  'declarations.*.leaves.*.for',
] as const;
