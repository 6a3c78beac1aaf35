import type { Variable } from './template-report.tsx';

export type VariableValues = Readonly<Record<string, string | undefined>>;

/** What is sent of values that were entered: those that have one. */
export function sentValues(values: VariableValues): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/** What is wrong with values, by the name of the variable, as far as the template says it; the server says the rest. */
export function faultsOf(variables: readonly Variable[], values: VariableValues): Readonly<Record<string, string>> {
  return Object.fromEntries(
    variables.flatMap((variable) => {
      const fault = faultOf(variable, values[variable.name]);
      return fault === undefined ? [] : [[variable.name, fault]];
    }),
  );
}

function faultOf({ name, default: usual, generated, required, pattern, type }: Variable, value: string | undefined) {
  if (value === undefined) return required && usual === null && !generated ? `${name} needs a value` : undefined;
  if ((type === 'number' || type === 'port') && !Number.isFinite(Number(value))) return `${name} is a number`;
  if (pattern !== null && !matches(pattern, value)) return `${name} has the form ${pattern}`;
  return undefined;
}

/** A pattern is for the whole value; one that this browser cannot read is left to the server. */
function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(`^(?:${pattern})$`, 'u').test(value);
  } catch {
    return true;
  }
}
