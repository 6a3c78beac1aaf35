interface Reported<O> {
  readonly meta: { readonly generation: number };
  readonly observed?: O;
}

/**
 * The observed state of an object, if it is of the present generation. A report on an earlier generation shows neither
 * success nor failure of the present one.
 */
export function upToDate<O extends { readonly observedGeneration: number }>({
  meta,
  observed,
}: Reported<O>): O | undefined {
  return observed !== undefined && observed.observedGeneration >= meta.generation ? observed : undefined;
}
