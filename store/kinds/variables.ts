import { z } from 'zod';

/** What variables of an environment, and arguments of a build, may be. */
export const variableLimits = { count: 500, nameChars: 256, valueBytes: 32 * 1024 } as const;

const nameRule = `must be a name of 1 to ${variableLimits.nameChars} printable characters, without = and white space`;
const sizeRule = `must be at most ${variableLimits.valueBytes / 1024} KiB`;
const textRule = 'must be text without NUL';
/** An engine takes any name without these; programs read such as `discovery.type` and `MY-KEY`. */
const namePattern = /^[^\p{C}\s=]{1,256}$/u;

/** The rule that the name of a variable breaks, in words that follow it; `undefined`: none. */
export function faultOfName(name: string): string | undefined {
  return namePattern.test(name) ? undefined : nameRule;
}

/** The rule that the value of a variable breaks, in words that follow its name; `undefined`: none. */
export function faultOfValue(value: string): string | undefined {
  if (Buffer.byteLength(value) > variableLimits.valueBytes) return sizeRule;
  return value.includes('\0') || !value.isWellFormed() ? textRule : undefined;
}

const VariableName = z.string().regex(namePattern, nameRule);

/** Lines and all other characters but NUL: a process gets the value as it is. */
const VariableValue = z.string().superRefine((value, context) => {
  const message = faultOfValue(value);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** Values by name, of which there are at most so many. `words` names them. */
export function valuesByName(words: string) {
  return z
    .record(VariableName, VariableValue)
    .refine(
      (it) => Object.keys(it).length <= variableLimits.count,
      `Must have at most ${variableLimits.count} ${words}`,
    );
}
