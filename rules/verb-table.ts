/** An object as the API answers with it. */
export type Shown = Readonly<Record<string, unknown>>;

/**
 * What a request for a verb meets in a state. `yes`: it is done. `no`: it is refused with 409 and this message. `idle`:
 * it is accepted and the state stays as it is, for this reason; there is no need to offer it.
 */
export type Cell = 'yes' | Refusal | { idle: string };

export interface Refusal {
  no: string;
  /** What the answer names besides, for programs. */
  detail?: { field: string; reason: string };
}

/** Which verbs an object takes in which state. Other objects can still forbid a verb: a full server, a taken port. */
export interface VerbTable<S extends string = string, V extends string = string> {
  states: readonly S[];
  /** The state of an object, which follows from its answer alone; `undefined` for one that this release does not know. */
  stateOf(it: Shown): S | undefined;
  verbs: Readonly<Record<V, Verb<S>>>;
}

export interface Verb<S extends string = string> {
  /** The verb in words for people, as on a button. */
  label: string;
  /** Method and path of the endpoint, as in the table of permissions. */
  route: string;
  in: Readonly<Record<S, Cell>>;
}

/** The cell of a verb for an object; `undefined` if this release does not know the state of the object. */
export function cellOf<V extends string>(table: VerbTable<string, V>, verb: V, it: Shown): Cell | undefined {
  const state = table.stateOf(it);
  return state === undefined ? undefined : table.verbs[verb].in[state];
}

/** Why a verb need not be offered for an object; `undefined` if it can be, or if only the API knows. */
export function whyNot<V extends string>(table: VerbTable<string, V>, verb: V, it: Shown): string | undefined {
  const cell = cellOf(table, verb, it);
  if (cell === undefined || cell === 'yes') return undefined;
  return 'no' in cell ? cell.no : cell.idle;
}

/** Nothing but a deletion is accepted of an object that is being deleted. */
export function beingDeleted(word: string): Refusal {
  return { no: `${word} is being deleted` };
}

/** The states as their field `status` has them. */
export function byStatus<S extends string>(states: readonly S[]): (it: Shown) => S | undefined {
  return ({ status }) => states.find((state) => state === status);
}
