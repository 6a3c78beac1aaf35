import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { volumeVerbs } from '#rules/volume.ts';
import { whyNot } from '#rules/verb-table.ts';
import { allApplications, allFunctions, allProjects, allServers, allVolumes } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { whyBelow } from '../../frame/rights.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import type { PageProps } from '../page.ts';
import { Button } from '../../parts/button.tsx';
import { Badge } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import { lookOf, lookOfStatus, shapesByUrgency, statusesOf } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { BackUpVolume } from '../backups/back-up.tsx';
import { ScheduleDialog } from '../backups/schedule-dialog.tsx';
import { VolumeBackups } from '../backups/volume-backups.tsx';
import { BindVolume, DeleteVolume, nameOfWorkload, NewVolume, UnbindVolume } from './volume-dialogs.tsx';

type Volume = ObjectOf<'volume'>;

interface Open {
  readonly dialog: 'bind' | 'unbind' | 'delete' | 'backup' | 'backups' | 'schedule';
  readonly id: string;
}

/** All volumes that the reader may see: what mounts them, and what they may be told to do. */
export function VolumesPage({ query }: PageProps): VNode {
  const { router, collections } = useConsole();
  const href = useHref();
  const volumes = useList(allVolumes, 'volume');
  const projects = byName(useList(allProjects, 'project').objects);
  const servers = byName(useList(allServers, 'server').objects);
  useList(allApplications, 'application');
  useList(allFunctions, 'function');
  const [open, setOpen] = useState<Open | 'new'>();
  const values = Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
  const text = (values['q'] ?? '').trim().toLowerCase();
  const at = (change: Readonly<Record<string, string | undefined>>): string =>
    href(['volumes'], { ...values, ...change });
  usePageKeys({ n: () => setOpen('new') });
  const rows = byName(volumes.objects).filter(
    (one) =>
      (values['status'] === undefined || one.status === values['status']) &&
      (values['projectId'] === undefined || one.project_id === values['projectId']) &&
      (values['serverId'] === undefined || one.server_id === values['serverId']) &&
      one.name.toLowerCase().includes(text),
  );
  const create = (
    <Button tone="primary" icon="plus" onClick={() => setOpen('new')}>
      New volume
    </Button>
  );
  const closed = (): void => setOpen(undefined);
  return (
    <Page title="Volumes" actions={volumes.objects.length > 0 ? create : undefined}>
      {volumes.reading.state === 'failed' && (
        <ErrorBox error={{ message: volumes.reading.message }} onRetry={() => collections.retry(allVolumes)} />
      )}
      {volumes.reading.state === 'reading' && volumes.objects.length === 0 && <Skeleton label="Reading volumes" />}
      {volumes.reading.state === 'ready' && volumes.objects.length === 0 && (
        <EmptyState title="No volume yet" action={create} command="setpoint create volume NAME --project PROJECT">
          A volume keeps data on a server while the containers that use it come and go. It is made empty, and then
          mounted in an application.
        </EmptyState>
      )}
      {volumes.objects.length > 0 && (
        <>
          <StatusCount
            label="Volumes by status"
            of={statusesOf('volume').map((status) => ({
              look: lookOfStatus('volume', status),
              count: volumes.objects.filter((one) => one.status === status).length,
              href: at({ status: values['status'] === status ? undefined : status }),
              isActive: values['status'] === status,
            }))}
          />
          <Filters
            search="Filter volumes by name"
            fields={[
              {
                name: 'projectId',
                label: 'Project',
                options: projects.map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name })),
              },
              {
                name: 'serverId',
                label: 'Server',
                options: servers.map(({ id, name }) => ({ value: id, label: name })),
              },
            ]}
            values={values}
            onChange={(next) => router.replace(href(['volumes'], next))}
          />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {volumes.objects.length} volumes is like this. <a href={href(['volumes'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <Rows rows={rows} onOpen={setOpen} />
          )}
        </>
      )}
      {open === 'new' && <NewVolume onClose={closed} />}
      {open !== undefined && open !== 'new' && <OpenDialog open={open} onClose={closed} />}
    </Page>
  );
}

function OpenDialog({ open, onClose }: { readonly open: Open; readonly onClose: () => void }): VNode | null {
  const { store } = useConsole();
  const { dialog, id } = open;
  const volume = store.get('volume', id);
  if (volume === undefined) return null;
  switch (dialog) {
    case 'bind':
      return <BindVolume volume={volume} onClose={onClose} />;
    case 'unbind':
      return <UnbindVolume volume={volume} onClose={onClose} />;
    case 'backup':
      return <BackUpVolume volume={volume} onClose={onClose} />;
    case 'backups':
      return <VolumeBackups volume={volume} onClose={onClose} />;
    case 'schedule':
      return <ScheduleDialog of={{ kind: 'volume', id: volume.id, name: volume.name }} onClose={onClose} />;
    case 'delete':
      return <DeleteVolume volume={volume} onClose={onClose} />;
  }
}

function Rows({ rows, onOpen }: { readonly rows: readonly Volume[]; readonly onOpen: (open: Open) => void }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const projectOf = ({ project_id: id }: Volume): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? '';
  };
  return (
    <Table
      label="Volumes"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        {
          id: 'name',
          title: 'Volume',
          isPrimary: true,
          sortBy: ({ name }) => name,
          cell: (one) => (
            <span class="row">
              <span class="strong">{one.name}</span>
              {one.expires_at !== null && (
                <Badge tone="warn">
                  goes <Time at={one.expires_at} />
                </Badge>
              )}
              {one.database_id !== null && <Badge>of a database</Badge>}
            </span>
          ),
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="volume" object={one} />,
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('volume', one).shape),
        },
        {
          id: 'mounted',
          title: 'Mounted in',
          cell: ({ bindings }) =>
            bindings.map((one, at) => (
              <span key={one.workload_id}>
                {at > 0 && ', '}
                <a href={href([`${one.workload_type}s`, one.workload_id])}>{nameOfWorkload(store, one)}</a>{' '}
                <code>{one.mount_path}</code>
                {one.read_only && ' read-only'}
              </span>
            )),
        },
        {
          id: 'project',
          title: 'Project',
          cell: (one) => <a href={href(['projects', one.project_id])}>{projectOf(one)}</a>,
          sortBy: projectOf,
        },
        {
          id: 'server',
          title: 'Server',
          cell: ({ server_id: id }) => <a href={href(['servers', id])}>{store.get('server', id)?.name ?? ''}</a>,
          sortBy: ({ server_id: id }) => store.get('server', id)?.name ?? '',
        },
        {
          id: 'made',
          title: 'Made',
          cell: ({ created_at: at }) => <Time at={at} />,
          sortBy: ({ created_at: at }) => at,
        },
        {
          id: 'menu',
          title: 'Actions',
          isNarrow: true,
          isBare: true,
          cell: (one) => <VolumeMenu volume={one} onOpen={onOpen} />,
        },
      ]}
    />
  );
}

function VolumeMenu({ volume, onOpen }: { readonly volume: Volume; readonly onOpen: (open: Open) => void }): VNode {
  const { rights } = useConsole();
  const below = whyBelow(rights.rankIn(volume.project_id), 'member');
  const ofDatabase = volume.database_id === null ? undefined : 'It has the data of a database';
  return (
    <Menu
      label={`Actions of ${volume.name}`}
      icon="more"
      tone="plain"
      entries={[
        {
          label: 'Mount in an application',
          why: whyNot(volumeVerbs, 'bind', volume) ?? ofDatabase ?? below,
          onSelect: () => onOpen({ dialog: 'bind', id: volume.id }),
        },
        {
          label: 'Unmount',
          why:
            whyNot(volumeVerbs, 'unbind', volume) ??
            (volume.bindings.length === 0 ? 'Nothing mounts it' : undefined) ??
            below,
          onSelect: () => onOpen({ dialog: 'unbind', id: volume.id }),
        },
        'line',
        {
          label: volumeVerbs.verbs.backup.label,
          why: whyNot(volumeVerbs, 'backup', volume) ?? ofDatabase ?? below,
          onSelect: () => onOpen({ dialog: 'backup', id: volume.id }),
        },
        {
          label: 'Back up by a schedule',
          why: ofDatabase ?? whyBelow(rights.rankIn(volume.project_id), 'admin'),
          onSelect: () => onOpen({ dialog: 'schedule', id: volume.id }),
        },
        {
          label: 'Backups and restores',
          why: ofDatabase,
          onSelect: () => onOpen({ dialog: 'backups', id: volume.id }),
        },
        'line',
        {
          label: 'Delete',
          isDanger: true,
          why:
            whyNot(volumeVerbs, 'delete', volume) ??
            (volume.bindings.length > 0 ? 'Something mounts it: unmount it first' : undefined) ??
            ofDatabase ??
            below,
          onSelect: () => onOpen({ dialog: 'delete', id: volume.id }),
        },
      ]}
    />
  );
}
