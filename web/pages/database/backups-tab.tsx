import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allBackupSchedules, allRestores } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyNotDatabaseVerb } from '../../frame/database-verbs.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { exactTime } from '../../parts/relative-time.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Time } from '../../parts/time.tsx';
import { BackUpDatabase } from '../backups/back-up.tsx';
import { BackupLine } from '../backups/backup-line.tsx';
import { BackupTable } from '../backups/backup-table.tsx';
import { ScheduleDialog } from '../backups/schedule-dialog.tsx';
import { SchedulesTable } from '../backups/schedules-table.tsx';
import { useBackupsOf } from '../backups/use-backups-of.ts';
import type { Database, TabProps } from './tab-props.ts';

type Asked = 'backup' | 'schedule' | undefined;

/** How the data of a database is kept elsewhere: schedules, the archive, and its backups. */
export function BackupsTab({ it }: TabProps): VNode {
  const rank = useRank(it.project_id);
  const [asked, setAsked] = useState<Asked>();
  const { backups, reading } = useBackupsOf('database', it.id);
  useList(allRestores, 'restore');
  const schedules = useList(allBackupSchedules, 'backup_schedule').objects.filter(
    ({ database_id: id }) => id === it.id,
  );
  const backUp = (
    <Button why={whyNotDatabaseVerb('backup', it, rank)} onClick={() => setAsked('backup')}>
      Make one now
    </Button>
  );
  const plan = (
    <Button icon="plus" why={whyBelow(rank, 'admin')} onClick={() => setAsked('schedule')}>
      New schedule
    </Button>
  );
  return (
    <div class="stack">
      <Card title="Schedules" actions={schedules.length > 0 ? plan : undefined}>
        {schedules.length === 0 ? (
          <EmptyState
            title="No schedule yet"
            action={plan}
            command={`setpoint backup ${shellQuoted(it.name)} --every @daily`}
          >
            A schedule makes backups again and again, and keeps as many good ones as it says.
          </EmptyState>
        ) : (
          <SchedulesTable rows={schedules} />
        )}
      </Card>
      {it.type === 'postgres' && <Archive it={it} />}
      <Card title="Backups" actions={backups.length > 0 ? backUp : undefined}>
        {reading.state === 'failed' && <ErrorBox error={{ message: reading.message }} />}
        {reading.state === 'reading' && backups.length === 0 && <Skeleton label="Reading backups" />}
        {reading.state === 'ready' && backups.length === 0 && (
          <EmptyState title="No backup yet" action={backUp} command={`setpoint backup ${shellQuoted(it.name)}`}>
            A backup is a dump of all that the database holds, in a bucket. It is made while the database serves.
          </EmptyState>
        )}
        {backups.length > 0 && (
          <>
            <BackupLine of={backups} />
            <BackupTable rows={backups} />
          </>
        )}
      </Card>
      {asked === 'backup' && <BackUpDatabase database={it} onClose={() => setAsked(undefined)} />}
      {asked === 'schedule' && (
        <ScheduleDialog of={{ kind: 'database', id: it.id, name: it.name }} onClose={() => setAsked(undefined)} />
      )}
    </div>
  );
}

/** What the archive of a database can be brought back to. */
function Archive({ it }: { readonly it: Database }): VNode {
  const { login } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const window = useRead(
    () => call(login, 'GET', '/api/v1/databases/{id}/recovery-window', { path: { id: it.id } }),
    [it.id, it.resource_version, JSON.stringify(it.conditions)],
  );
  const { data } = window;
  return (
    <Card
      title="Any instant"
      actions={
        data?.available === true ? (
          <LinkButton href={href(parts(it, 'restore'))}>Pick an instant</LinkButton>
        ) : (
          <LinkButton href={href(parts(it, 'settings'))}>
            {it.backup_mode === 'pitr' ? 'Settings' : 'Turn it on'}
          </LinkButton>
        )
      }
    >
      {window.error !== undefined && <ErrorBox error={window.error} onRetry={window.again} />}
      {data !== undefined && (
        <Facts
          of={[
            ['Archived', it.backup_mode === 'pitr' ? 'all that it writes' : 'no: its backups are all that it has'],
            ['From', data.earliest_time === null ? undefined : exactTime(data.earliest_time)],
            ['To', data.latest_time === null ? undefined : exactTime(data.latest_time)],
            [
              'Last part in the bucket',
              data.last_wal_at === null ? undefined : <Time key="wal" at={data.last_wal_at} />,
            ],
            ['Holes', data.gaps.length === 0 ? undefined : String(data.gaps.length)],
          ]}
        />
      )}
    </Card>
  );
}
