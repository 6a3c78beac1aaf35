import { InvalidArgumentError, Option } from 'commander';

/** What a variable says of a flag without a value, in any case. */
const words = new Map([
  ...['true', 'yes', 'on', '1'].map((word) => [word, true] as const),
  ...['false', 'no', 'off', '0'].map((word) => [word, false] as const),
]);

/**
 * A flag that the environment can set, too: `--log-level` is `SETPOINT_LOG_LEVEL`. The variable of a flag without a value
 * is `true` or `false`, in one of the usual words: one that says false is as none. Any other text is refused with the
 * command.
 */
export function flag(flags: string, text: string): Option {
  const option = new Option(flags, text);
  const variable = `SETPOINT_${option.long?.slice(2).replaceAll('-', '_').toUpperCase() ?? ''}`;
  if (option.required || option.optional) return option.env(variable);
  const value = process.env[variable] ?? '';
  if (value === '') return option.env(variable);
  // commander takes a variable of any text for the flag
  const isSet = words.get(value.toLowerCase());
  if (isSet === false) return option;
  if (isSet === true) return option.env(variable);
  return option.env(variable).argParser(() => {
    throw new InvalidArgumentError(`${variable} must be true or false`);
  });
}

/** Removes empty variables of the environment that set a flag: they count as unset. */
export function forgetEmptyVariables(): void {
  for (const [name, value] of Object.entries(process.env))
    if (name.startsWith('SETPOINT_') && value === '') Reflect.deleteProperty(process.env, name);
}
