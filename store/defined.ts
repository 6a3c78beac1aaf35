type Optional<T> = { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };
type Required<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] };

/** Leaves out the properties whose value is `undefined`: an optional field is absent, never present and undefined. */
export function defined<T extends object>(it: T): Required<T> & Optional<T> {
  return Object.fromEntries(Object.entries(it).filter(([, value]) => value !== undefined)) as Required<T> & Optional<T>; // entries lose the types of their keys
}
