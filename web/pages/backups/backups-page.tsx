import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { allBackups, allBackupSchedules, allProjects, allRestores } from '../../frame/collections.ts';
import type { Collection } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { byName } from '../../model.ts';
import type { Kind } from '../../model.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import type { FilterField, FilterValues } from '../../parts/filters.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import { lookOfStatus, statusesOf } from '../../parts/status-words.ts';
import type { StatusKind } from '../../parts/status-words.ts';
import type { PageProps } from '../page.ts';
import { BackupLine } from './backup-line.tsx';
import { BackupTable } from './backup-table.tsx';
import { RestoresTable } from './restores-table.tsx';
import { ScheduleDialog } from './schedule-dialog.tsx';
import { SchedulesTable } from './schedules-table.tsx';
import { newestFirst } from './use-backups-of.ts';

const tabs = [
  { tab: '', label: 'Backups' },
  { tab: 'schedules', label: 'Schedules' },
  { tab: 'restores', label: 'Restores' },
] as const;

/** Backups of all projects that the reader may see, what makes them, and what brought them back. */
export function BackupsPage({ params, query }: PageProps): VNode {
  const href = useHref();
  const [isNew, setNew] = useState(false);
  const tab = params['tab'] ?? '';
  const to = (name: string): string => href(name === '' ? ['backups'] : ['backups', name]);
  return (
    <Page
      title="Backups"
      actions={
        <>
          <Button tone="primary" icon="plus" onClick={() => setNew(true)}>
            New schedule
          </Button>
          <LinkButton href={href(['settings', 'destinations'])}>Destinations</LinkButton>
        </>
      }
      tabs={tabs.map((one) => ({ href: to(one.tab), label: one.label }))}
      current={to(tabs.find((one) => one.tab === tab)?.tab ?? '')}
    >
      {tab === 'schedules' ? (
        <Schedules query={query} />
      ) : tab === 'restores' ? (
        <Restores query={query} />
      ) : (
        <Backups query={query} />
      )}
      {isNew && <ScheduleDialog onClose={() => setNew(false)} />}
    </Page>
  );
}

interface PartProps {
  readonly query: URLSearchParams;
}

/** What all three lists can be narrowed by. */
interface Listed {
  readonly name: string;
  readonly status: string;
  readonly project_id: string;
}

function matches(one: Listed, values: FilterValues): boolean {
  return (
    (values['status'] === undefined || one.status === values['status']) &&
    (values['projectId'] === undefined || one.project_id === values['projectId']) &&
    one.name.toLowerCase().includes((values['q'] ?? '').trim().toLowerCase())
  );
}

function valuesOf(query: URLSearchParams): FilterValues {
  return Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
}

interface NarrowingProps {
  readonly kind: StatusKind;
  readonly label: string;
  readonly path: readonly string[];
  readonly of: readonly Listed[];
  readonly values: FilterValues;
  readonly more?: readonly FilterField[];
}

/** Counts by status, and filters, which the address has. */
function Narrowing({ kind, label, path, of, values, more = [] }: NarrowingProps): VNode {
  const { router } = useConsole();
  const href = useHref();
  const projects = byName(useList(allProjects, 'project').objects);
  return (
    <>
      <StatusCount
        label={`${label} by status`}
        of={statusesOf(kind).map((status) => ({
          look: lookOfStatus(kind, status),
          count: of.filter((one) => one.status === status).length,
          href: href(path, { ...values, status: values['status'] === status ? undefined : status }),
          isActive: values['status'] === status,
        }))}
      />
      <Filters
        search="Filter by name"
        fields={[
          ...more,
          {
            name: 'projectId',
            label: 'Project',
            options: projects.map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name })),
          },
        ]}
        values={values}
        onChange={(next) => router.replace(href(path, next))}
      />
    </>
  );
}

function Failed<K extends Kind>({ of, kind }: { readonly of: Collection<K>; readonly kind: K }): VNode | null {
  const { collections } = useConsole();
  const { reading, objects } = useList(of, kind);
  if (reading.state === 'failed')
    return <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(of)} />;
  return reading.state === 'reading' && objects.length === 0 ? <Skeleton label="Reading" /> : null;
}

function NoneLike({ path }: { readonly path: readonly string[] }): VNode {
  const href = useHref();
  return (
    <Notice shape="info">
      <p>
        None is like this. <a href={href(path)}>Clear filters</a>
      </p>
    </Notice>
  );
}

const mostLines = 50;

function Backups({ query }: PartProps): VNode {
  const { objects, reading } = useList(allBackups, 'backup');
  useList(allRestores, 'restore');
  const values = valuesOf(query);
  const rows = newestFirst(objects).filter(
    (one) => matches(one, values) && (values['kind'] === undefined || one.kind === values['kind']),
  );
  const lines = [...Map.groupBy(rows, ({ resource_id: id }) => id)];
  if (objects.length === 0)
    return (
      <>
        <Failed of={allBackups} kind="backup" />
        {reading.state === 'ready' && (
          <EmptyState title="No backup yet" command="setpoint backup NAME">
            A backup is what a database held at an instant, or the files of a volume, as one object in a bucket. Make
            one on the page of a database, or have a schedule make them.
          </EmptyState>
        )}
      </>
    );
  return (
    <>
      <Narrowing
        kind="backup"
        label="Backups"
        path={['backups']}
        of={objects}
        values={values}
        more={[
          {
            name: 'kind',
            label: 'Of',
            options: [
              { value: 'database', label: 'Databases' },
              { value: 'volume', label: 'Volumes' },
            ],
          },
        ]}
      />
      {rows.length === 0 ? (
        <NoneLike path={['backups']} />
      ) : (
        <>
          <Card title="The last 30 days">
            <div class="backup-rows">
              {lines.slice(0, mostLines).map(([id, of]) => [
                <span key={`${id} name`} class="strong">
                  {of[0]?.name}
                </span>,
                <BackupLine key={id} of={of} />,
              ])}
            </div>
            {lines.length > mostLines && (
              <p class="quiet">
                {mostLines} of {lines.length}: filter by name to see others.
              </p>
            )}
          </Card>
          <BackupTable rows={rows} isMixed />
        </>
      )}
    </>
  );
}

function Schedules({ query }: PartProps): VNode {
  const { objects, reading } = useList(allBackupSchedules, 'backup_schedule');
  const values = valuesOf(query);
  const rows = byName(objects).filter((one) => matches(one, values));
  if (objects.length === 0)
    return (
      <>
        <Failed of={allBackupSchedules} kind="backup_schedule" />
        {reading.state === 'ready' && (
          <EmptyState title="No schedule yet" command='setpoint backup NAME --every "30 3 * * *" --keep 14'>
            A schedule makes backups of a database, of a volume, or of all volumes of an application again and again,
            and keeps as many good ones as it says.
          </EmptyState>
        )}
      </>
    );
  const path = ['backups', 'schedules'];
  return (
    <>
      <Narrowing kind="backup_schedule" label="Schedules" path={path} of={objects} values={values} />
      {rows.length === 0 ? <NoneLike path={path} /> : <SchedulesTable rows={rows} />}
    </>
  );
}

function Restores({ query }: PartProps): VNode {
  const { objects, reading } = useList(allRestores, 'restore');
  const values = valuesOf(query);
  const rows = newestFirst(objects).filter((one) => matches(one, values));
  if (objects.length === 0)
    return (
      <>
        <Failed of={allRestores} kind="restore" />
        {reading.state === 'ready' && (
          <EmptyState title="No restore yet" command="setpoint restore BACKUP --as NAME">
            A restore reads a backup into a new volume beside what serves, checks it, and only then puts it in its
            place. Bring one back as a new database from time to time: that shows that it can be.
          </EmptyState>
        )}
      </>
    );
  const path = ['backups', 'restores'];
  return (
    <>
      <Narrowing kind="restore" label="Restores" path={path} of={objects} values={values} />
      {rows.length === 0 ? <NoneLike path={path} /> : <RestoresTable rows={rows} />}
    </>
  );
}
