import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allApplications, allDatabases, allVolumes } from '../../frame/collections.ts';
import { useConsole, useList } from '../../frame/context.ts';
import { usePlaceNames } from '../../frame/place-names.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { nextFirings } from '../../parts/cron-times.ts';
import { Drawer } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Checkbox, CronInput, TextInput } from '../../parts/inputs.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { shownPath } from '../served-fields.ts';
import { DestinationChoice } from './destination-choice.tsx';

type Schedule = ObjectOf<'backup_schedule'>;
type TargetKind = 'database' | 'volume' | 'application';

/** What a schedule backs up. */
interface Target {
  readonly kind: TargetKind;
  readonly id: string;
  readonly name: string;
}

interface ScheduleDialogProps {
  /** The one that is changed; without it, one is made. */
  readonly schedule?: Schedule | undefined;
  /** What a new one is of, where the page knows it. */
  readonly of?: Target | undefined;
  readonly onClose: () => void;
}

const formId = 'backup-schedule';
const usualKept = 7;
const mostKept = 365;

/** Makes or changes a schedule: when, where to, how many are kept; its next firings are shown. */
export function ScheduleDialog({ schedule, of, onClose }: ScheduleDialogProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const [target, setTarget] = useState<Target | undefined>(of);
  const start = useState(() => ({ ...startOf(schedule), version: schedule?.resource_version ?? '' }))[0];
  const [cron, setCron] = useState(start.cron);
  const [zone, setZone] = useState(start.zone);
  const [kept, setKept] = useState(start.kept);
  const [verified, setVerified] = useState(start.verified);
  const [destinationId, setDestinationId] = useState(start.destinationId);
  const [isPaused, setPaused] = useState(start.isPaused);
  const name = schedule?.name ?? target?.name;
  const interval = verified.trim();
  const trial = interval === '' ? '' : ` --verify ${shellQuoted(interval)}`;
  const settings = {
    cron_expression: cron.trim(),
    timezone: zone,
    retention_count: Number(kept),
    is_paused: isPaused,
    verify_every: interval === '' ? null : interval,
    ...(destinationId !== undefined && { destination_id: destinationId }),
  };
  const changed = changedOf(settings, start);
  const created = { ...fieldOf(target), ...settings };
  const why =
    whyNotYet({ name, cron, zone, kept, verified }) ??
    (schedule !== undefined && destinationId === undefined ? 'Choose a destination first' : undefined);
  const save = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('backup_schedule', () =>
        schedule === undefined
          ? call(login, 'POST', '/api/v1/backup-schedules', { body: created })
          : call(login, 'PUT', '/api/v1/backup-schedules/{id}', {
              path: { id: schedule.id },
              body: changed,
              // what it has done meanwhile is no other setting
              ifMatch: isSame(start, startOf(schedule)) ? schedule.resource_version : start.version,
            }),
      ),
    );
    if (!isDone) return;
    messages.say(schedule === undefined ? `${name} is backed up by a schedule` : 'The schedule is saved');
    onClose();
  };
  const faultOf = (field: string): string | undefined =>
    act.error?.details?.find((one) => one.field === field)?.message;
  const title = schedule === undefined ? 'New backup schedule' : `Schedule of ${schedule.name}`;
  return (
    <Drawer
      title={title}
      onClose={onClose}
      dirty={Object.keys(changed).length > 0}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" type="submit" form={formId} busy={act.busy} why={why}>
            {schedule === undefined ? 'Create schedule' : 'Save schedule'}
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <form
        id={formId}
        class="form"
        aria-label={title}
        onSubmit={(event) => {
          event.preventDefault();
          if (why === undefined) void save();
        }}
      >
        {schedule === undefined && of === undefined && <TargetField value={target} onChange={setTarget} />}
        <Field label="When" error={faultOf('cron_expression')} isRequired>
          {(control) => <CronInput control={control} value={cron} zone={zone} onInput={setCron} />}
        </Field>
        <Field label="Zone" error={faultOf('timezone')}>
          {(control) => (
            <Combobox
              control={control}
              options={zones().map((one) => ({ value: one, label: one }))}
              value={zone}
              onChange={(next) => setZone(next ?? 'UTC')}
            />
          )}
        </Field>
        <Field
          label="Good backups that are kept"
          help="From 1 to 365. Failed ones do not count, and the last good one never goes."
          error={faultOf('retention_count')}
        >
          {(control) => <TextInput control={control} value={kept} onInput={setKept} inputMode="numeric" />}
        </Field>
        <Field
          label="Restored for trial every"
          help="Such as 7d or 2w: the newest one is restored beside what is there, read, and removed. Empty: never."
          error={faultOf('verify_every')}
          isOptional
        >
          {(control) => <TextInput control={control} value={verified} onInput={setVerified} />}
        </Field>
        <Field label="Destination" help="Without one: the only one that there is." isOptional>
          {(control) => <DestinationChoice control={control} value={destinationId} onChange={setDestinationId} />}
        </Field>
        <Checkbox checked={isPaused} onChange={setPaused}>
          Paused
        </Checkbox>
      </form>
      <ShowAs
        origin={location.origin}
        request={
          schedule === undefined
            ? { method: 'POST', path: shownPath(login, '/api/v1/backup-schedules'), body: created }
            : { method: 'PUT', path: shownPath(login, `/api/v1/backup-schedules/${schedule.id}`), body: changed }
        }
        command={
          schedule === undefined
            ? `setpoint backup ${shellQuoted(name ?? 'NAME')} --every ${shellQuoted(cron.trim())} --timezone ${shellQuoted(zone)} --keep ${kept}${trial}`
            : undefined
        }
      />
    </Drawer>
  );
}

/** What the form begins with. */
function startOf(schedule: Schedule | undefined) {
  return {
    cron: schedule?.cron_expression ?? '0 3 * * *',
    zone: schedule?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    kept: String(schedule?.retention_count ?? usualKept),
    verified: schedule?.verify_every ?? '',
    isPaused: schedule?.is_paused ?? false,
    destinationId: schedule?.destination_id,
  };
}

type Start = ReturnType<typeof startOf>;

/** Whether a schedule has the settings that a form began with. */
function isSame(start: Start, now: Start): boolean {
  return Object.entries(now).every(([name, value]) => start[name as keyof Start] === value);
}

/** What a form would change of the settings that it began with, which others may have changed since. */
function changedOf<T extends object>(settings: T, start: Start): Partial<T> {
  const before: Readonly<Record<string, unknown>> = {
    cron_expression: start.cron,
    timezone: start.zone,
    retention_count: Number(start.kept),
    is_paused: start.isPaused,
    verify_every: start.verified === '' ? null : start.verified,
    destination_id: start.destinationId,
  };
  const changed = Object.entries(settings).filter(([name, value]) => value !== before[name]);
  return Object.fromEntries(changed) as Partial<T>; // its own fields
}

/** The field that names what is backed up. */
function fieldOf(target: Target | undefined): {
  readonly database_id?: string;
  readonly volume_id?: string;
  readonly application_id?: string;
} {
  switch (target?.kind) {
    case 'database':
      return { database_id: target.id };
    case 'volume':
      return { volume_id: target.id };
    case 'application':
      return { application_id: target.id };
    case undefined:
      return {};
  }
}

interface Entered {
  readonly name: string | undefined;
  readonly cron: string;
  readonly zone: string;
  readonly kept: string;
  readonly verified: string;
}

function whyNotYet({ name, cron, zone, kept, verified }: Entered): string | undefined {
  if (name === undefined) return 'Choose what is backed up first';
  const reading = nextFirings(cron, zone, new Date(), 1);
  if ('error' in reading) return reading.error;
  const count = /^\d{1,3}$/.test(kept.trim()) ? Number(kept) : 0;
  if (count < 1 || count > mostKept) return `Keep from 1 to ${mostKept} backups`;
  return /^(|[1-9]\d{0,2}[dw])$/.test(verified.trim())
    ? undefined
    : 'Restore for trial every so many days or weeks, as 7d';
}

function zones(): readonly string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];
}

interface TargetFieldProps {
  readonly value: Target | undefined;
  readonly onChange: (target: Target | undefined) => void;
}

/** What is backed up: a database, a volume, or all volumes that an application mounts. */
function TargetField({ value, onChange }: TargetFieldProps): VNode {
  const databases = byName(useList(allDatabases, 'database').objects);
  const volumes = byName(useList(allVolumes, 'volume').objects).filter(({ database_id: id }) => id === null);
  const applications = byName(useList(allApplications, 'application').objects);
  const placeOf = usePlaceNames([...databases, ...volumes, ...applications]);
  const targets: readonly (Target & { note: string })[] = [
    ...databases.map((it) => ({
      kind: 'database' as const,
      id: it.id,
      name: it.name,
      note: `database of ${placeOf(it)}`,
    })),
    ...volumes.map((it) => ({ kind: 'volume' as const, id: it.id, name: it.name, note: `volume of ${placeOf(it)}` })),
    ...applications.map((it) => ({
      kind: 'application' as const,
      id: it.id,
      name: it.name,
      note: `${placeOf(it)}: all volumes that it mounts`,
    })),
  ];
  return (
    <Field label="What is backed up" isRequired>
      {(control) => (
        <Combobox
          control={control}
          options={targets.map(({ id, name, note }) => ({ value: id, label: name, note }))}
          value={value?.id}
          onChange={(id) => onChange(targets.find((one) => one.id === id))}
          empty="There is no database, no volume and no application like this"
        />
      )}
    </Field>
  );
}
