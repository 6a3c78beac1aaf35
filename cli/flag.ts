import { Option } from 'commander';

/** A flag that the environment can set, too: `--log-level` is `SETPOINT_LOG_LEVEL`. */
export function flag(flags: string, text: string): Option {
  const option = new Option(flags, text);
  const name = option.long?.slice(2).replaceAll('-', '_').toUpperCase() ?? '';
  return option.env(`SETPOINT_${name}`);
}

/** Removes empty variables of the environment that set a flag: they count as unset. */
export function forgetEmptyVariables(): void {
  for (const [name, value] of Object.entries(process.env))
    if (name.startsWith('SETPOINT_') && value === '') Reflect.deleteProperty(process.env, name);
}
