/** `T` with everything in it readonly; arrays and tuples become readonly ones. */
export type DeepReadonly<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends object
    ? { readonly [P in keyof T]: DeepReadonly<T[P]> }
    : T;
