import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { backupScheduleVerbs } from '#rules/backup-schedule.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { cronWords } from '../../parts/cron-times.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Status } from '../../parts/status.tsx';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { ScheduleDialog } from './schedule-dialog.tsx';

type Schedule = ObjectOf<'backup_schedule'>;

/** Schedules as a list, with when each fires next and what became of the last time. */
export function SchedulesTable({ rows }: { readonly rows: readonly Schedule[] }): VNode {
  const { store } = useConsole();
  const act = useAct();
  const [open, setOpen] = useState<{ readonly dialog: 'edit' | 'delete'; readonly id: string }>();
  const shown = open === undefined ? undefined : store.get('backup_schedule', open.id);
  const closed = (): void => setOpen(undefined);
  return (
    <>
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Table
        label="Backup schedules"
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          {
            id: 'of',
            title: 'Of',
            isPrimary: true,
            sortBy: ({ name }) => name,
            cell: (one) => <TargetLink it={one} />,
          },
          {
            id: 'status',
            title: 'Status',
            isBare: true,
            cell: (one) => <Status kind="backup_schedule" object={one} />,
            sortBy: (one) => shapesByUrgency.indexOf(lookOf('backup_schedule', one).shape),
          },
          {
            id: 'when',
            title: 'When',
            cell: ({ cron_expression: cron, timezone }) => (
              <span>
                {cronWords(cron) ?? <code>{cron}</code>} <span class="quiet">{timezone}</span>
              </span>
            ),
          },
          {
            id: 'next',
            title: 'Next',
            cell: ({ next_run_at: at }) => (at === null ? 'none' : <Time at={at} />),
            sortBy: ({ next_run_at: at }) => at ?? '',
          },
          {
            id: 'last',
            title: 'Last good one',
            cell: ({ last_success_at: at }) => (at === null ? 'none yet' : <Time at={at} />),
            sortBy: ({ last_success_at: at }) => at ?? '',
          },
          {
            id: 'proven',
            title: 'Restored for trial',
            cell: (one) => <Tried it={one} />,
            sortBy: ({ verification: last }) => last?.at ?? '',
          },
          { id: 'kept', title: 'Kept', isNumber: true, cell: ({ retention_count: count }) => count },
          {
            id: 'missed',
            title: 'Missed',
            isNumber: true,
            cell: ({ missed }) => missed,
            sortBy: ({ missed }) => missed,
          },
          {
            id: 'menu',
            title: 'Actions',
            isNarrow: true,
            isBare: true,
            cell: (one) => <ScheduleMenu it={one} run={act.run} onOpen={(dialog) => setOpen({ dialog, id: one.id })} />,
          },
        ]}
      />
      {shown !== undefined && open?.dialog === 'edit' && <ScheduleDialog schedule={shown} onClose={closed} />}
      {shown !== undefined && open?.dialog === 'delete' && <DeleteSchedule it={shown} onClose={closed} />}
    </>
  );
}

/** What the last drills have shown. */
function Tried({ it }: { readonly it: Schedule }): VNode {
  const { verify_every: every, verification: last } = it;
  if (last === null) return <span class="quiet">{every === null ? 'never' : 'not yet'}</span>;
  return (
    <span>
      {last.status === 'proven' ? 'proven' : 'not proven'} <Time at={last.at} />
    </span>
  );
}

function TargetLink({ it }: { readonly it: Schedule }): VNode {
  const href = useHref();
  const to =
    it.database_id !== null
      ? href(['databases', it.database_id, 'backups'])
      : it.application_id !== null
        ? href(['applications', it.application_id])
        : href(['volumes'], { q: it.name });
  return (
    <span>
      <a class="strong" href={to}>
        {it.name}
      </a>{' '}
      <span class="quiet">
        {it.database_id !== null ? 'database' : it.application_id !== null ? 'volumes of an application' : 'volume'}
      </span>
    </span>
  );
}

interface MenuProps {
  readonly it: Schedule;
  readonly run: (act: () => Promise<unknown>) => Promise<boolean>;
  readonly onOpen: (dialog: 'edit' | 'delete') => void;
}

function ScheduleMenu({ it, run, onOpen }: MenuProps): VNode {
  const { login, store, rights, messages } = useConsole();
  const rank = rights.rankIn(it.project_id);
  const why = (verb: keyof typeof backupScheduleVerbs.verbs): string | undefined =>
    whyNot(backupScheduleVerbs, verb, it) ?? whyBelow(rank, verb === 'run' ? 'member' : 'admin');
  const path = { id: it.id };
  const fire = async (): Promise<void> => {
    const isDone = await run(() =>
      store.answer('backup', () => call(login, 'POST', '/api/v1/backup-schedules/{id}/run', { path })),
    );
    if (isDone) messages.say(`A backup of ${it.name} is on its way`);
  };
  const pause = (): void =>
    void run(() =>
      store.answer('backup_schedule', () =>
        call(login, 'PUT', '/api/v1/backup-schedules/{id}', { path, body: { is_paused: !it.is_paused } }),
      ),
    );
  return (
    <Menu
      label={`Actions of the schedule of ${it.name}`}
      icon="more"
      tone="plain"
      entries={[
        { label: 'Back up now', why: why('run'), onSelect: () => void fire() },
        { label: it.is_paused ? 'Resume' : 'Pause', why: why('update'), onSelect: pause },
        { label: 'Change', why: why('update'), onSelect: () => onOpen('edit') },
        'line',
        { label: 'Delete', why: why('delete'), isDanger: true, onSelect: () => onOpen('delete') },
      ]}
    />
  );
}

function DeleteSchedule({ it, onClose }: { readonly it: Schedule; readonly onClose: () => void }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() => call(login, 'DELETE', '/api/v1/backup-schedules/{id}', { path: { id: it.id } }));
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete the schedule of ${it.name}`}
      verb="Delete the schedule"
      goes={['The schedule: no backup is made by it any more']}
      stays={[`${it.name} and its data`, 'The backups that were made by it']}
      command={`setpoint delete backup-schedule ${it.id}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
