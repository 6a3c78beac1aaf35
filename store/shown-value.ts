const mostChars = 200;

/** A value as a person is shown it: a list as JSON, a long text cut; `null`: there is none. */
export function shownValue(value: unknown): string | number | boolean | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > mostChars ? `${text.slice(0, mostChars)}…` : text;
}
