import { Combobox } from '../../parts/combobox.tsx';
import { CronInput } from '../../parts/inputs.tsx';
import type { CustomControl, Values } from '../../parts/schema-form.tsx';
import { zoneOf } from './trigger-fields.ts';

const zones = (): readonly string[] => ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];

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
