import { Combobox } from '../../parts/combobox.tsx';
import { CronInput } from '../../parts/inputs.tsx';
import type { CustomControl, Values } from '../../parts/schema-form.tsx';

const zones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];

/** The time zone of a schedule; UTC where none was chosen. */
export function zoneOf({ schedule_config: config }: Values): string {
  const isSet = typeof config === 'object' && config !== null && 'timezone' in config;
  return isSet && typeof config.timezone === 'string' && config.timezone !== '' ? config.timezone : 'UTC';
}

/** Controls for a schedule and its time zone: what it means, and when it calls next. */
export function triggerControls(values: Values): Readonly<Record<string, CustomControl>> {
  const zone = zoneOf(values);
  return {
    schedule: ({ control, value, onChange }) => (
      <CronInput control={control} value={typeof value === 'string' ? value : ''} zone={zone} onInput={onChange} />
    ),
    schedule_config: ({ control, onChange }) => (
      <Combobox
        control={control}
        options={zones().map((one) => ({ value: one, label: one }))}
        value={zone}
        onChange={(timezone) => onChange({ timezone })}
      />
    ),
  };
}

/** Values as they are sent: of what calls it, the fields of that alone. */
export function sentTrigger(values: Values, all: Values): Values {
  const others = all['trigger_type'] === 'cron' ? ['exposed_port'] : ['schedule', 'schedule_config'];
  return Object.fromEntries(Object.entries(values).filter(([name]) => !others.includes(name)));
}
