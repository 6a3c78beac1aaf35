import { badRequest } from '../ground/api-error.ts';
import type { Random } from '../ground/random.ts';
import { PatternTime } from './pattern-time.ts';
import { generated, generatorOf, isNeeded, valueFault } from './variables.ts';
import type { Variable } from './variables.ts';

/** The value of a variable. */
export interface Value {
  variable: Variable;
  text: string;
  /** It was made. */
  isGenerated: boolean;
  /** It is the default of the template. */
  isDefault: boolean;
}

/** A value of a former revision. */
export type FormerValue = Pick<Value, 'text' | 'isGenerated' | 'isDefault'>;

/**
 * The values that a template is instantiated with, of those that are given, that a former revision was given or made, of
 * defaults and of generators. A variable that needs none and has none is left out. @throws ApiError BAD_REQUEST naming each variable that is missing, unknown or wrong
 */
export function valuesFrom(
  variables: readonly Variable[],
  given: Readonly<Record<string, string>>,
  { random, now, former }: { random: Random; now: Date; former?: ReadonlyMap<string, FormerValue> | undefined },
): ReadonlyMap<string, Value> {
  const known = new Set(variables.map(({ name }) => name));
  const faults = Object.keys(given)
    .filter((name) => !known.has(name))
    .map((name) => fault(name, 'unknown', `The template has no variable ${name}`));
  const values = new Map<string, Value>();
  const judging = { now, patterns: new PatternTime() };
  for (const variable of variables) {
    const { name } = variable;
    const sent = Object.hasOwn(given, name) ? given[name] : undefined;
    const kept = sent === undefined ? former?.get(name) : undefined;
    if (kept?.isGenerated === true) {
      values.set(name, { variable, ...kept });
      continue;
    }
    const own = sent ?? (kept?.isDefault === false ? kept.text : undefined);
    const text = own ?? variable.default;
    if (text === undefined) {
      const generator = generatorOf(variable);
      if (generator !== undefined)
        values.set(name, { variable, text: generated(generator, random), isGenerated: true, isDefault: false });
      else if (isNeeded(variable)) faults.push(fault(name, 'required', `The variable ${name} needs a value`));
      continue;
    }
    const wrong = valueFault(variable, text, judging);
    if (wrong !== undefined) faults.push(fault(name, 'invalid', `The variable ${name} ${wrong}`));
    values.set(name, { variable, text, isGenerated: false, isDefault: own === undefined });
  }
  const [first] = faults;
  if (first !== undefined) throw badRequest(first.message, faults);
  return values;
}

function fault(name: string, reason: string, message: string) {
  return { field: `variables.${name}`, reason, message };
}
