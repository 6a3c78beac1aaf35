type Labels = Readonly<Record<string, string>>;

/** True if all wanted labels are among the given ones, with the same values. */
export function bears(given: Labels | null | undefined, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => given?.[name] === value);
}
