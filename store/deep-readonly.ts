export type DeepReadonly<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends (infer I)[]
    ? readonly DeepReadonly<I>[]
    : T extends object
      ? { readonly [P in keyof T]: DeepReadonly<T[P]> }
      : T;
