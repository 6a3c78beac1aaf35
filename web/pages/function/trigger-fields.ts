import type { Values } from '../../parts/schema-form.tsx';

/** The time zone of a schedule; UTC where none was chosen. */
export function zoneOf({ schedule_config: config }: Values): string {
  const isSet = typeof config === 'object' && config !== null && 'timezone' in config;
  return isSet && typeof config.timezone === 'string' && config.timezone !== '' ? config.timezone : 'UTC';
}

/** Values as they are sent: of what calls it, the fields of that alone. */
export function sentTrigger(values: Values, all: Values): Values {
  const others = all['trigger_type'] === 'cron' ? ['exposed_port'] : ['schedule', 'schedule_config'];
  return Object.fromEntries(Object.entries(values).filter(([name]) => !others.includes(name)));
}
