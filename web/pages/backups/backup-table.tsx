import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { backupVerbs } from '#rules/backup.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { Bytes } from '../../parts/bytes.tsx';
import { Badge } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Status } from '../../parts/status.tsx';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { bytesText } from '../../parts/units.ts';
import { BackupDetails } from './backup-details.tsx';
import { CloneVolume, RestoreVolume } from './restore-volume.tsx';

type Backup = ObjectOf<'backup'>;

type Open = { readonly dialog: 'details' | 'delete' | 'restore' | 'clone'; readonly id: string } | undefined;

interface BackupTableProps {
  readonly rows: readonly Backup[];
  /** They are of several databases and volumes, so that each names its own. */
  readonly isMixed?: boolean | undefined;
}

/** Backups as a list, with what was checked of each and what can be done with it. */
export function BackupTable({ rows, isMixed = false }: BackupTableProps): VNode {
  const { store } = useConsole();
  const href = useHref();
  const act = useAct();
  const [open, setOpen] = useState<Open>();
  const shown = open === undefined ? undefined : store.get('backup', open.id);
  const closed = (): void => setOpen(undefined);
  return (
    <>
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Table
        label="Backups"
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          {
            id: 'when',
            title: 'Asked',
            isPrimary: true,
            sortBy: ({ requested_at: at }) => at,
            cell: (one) => (
              <span class="row">
                <button type="button" class="link-button" onClick={() => setOpen({ dialog: 'details', id: one.id })}>
                  <Time at={one.requested_at} />
                </button>
                {one.pinned && <Badge>pinned</Badge>}
              </span>
            ),
          },
          ...(isMixed
            ? [
                {
                  id: 'of',
                  title: 'Of',
                  sortBy: ({ name }: Backup) => name,
                  cell: ({ kind, resource_id: id, name }: Backup) => (
                    <span>
                      {kind === 'database' ? (
                        <a href={href(['databases', id])}>{name}</a>
                      ) : (
                        <a href={href(['volumes'], { q: name })}>{name}</a>
                      )}{' '}
                      <span class="quiet">{kind}</span>
                    </span>
                  ),
                },
              ]
            : []),
          {
            id: 'status',
            title: 'Status',
            isBare: true,
            cell: (one: Backup) => <BackupStatus it={one} />,
            sortBy: (one: Backup) => shapesByUrgency.indexOf(lookOf('backup', one).shape),
          },
          { id: 'by', title: 'By', cell: ({ trigger }: Backup) => (trigger === 'manual' ? 'hand' : 'a schedule') },
          { id: 'method', title: 'What it is', cell: ({ method }: Backup) => methods[method] },
          {
            id: 'size',
            title: 'Size',
            isNumber: true,
            cell: ({ size_bytes: bytes }: Backup) => bytes !== null && <Bytes of={bytes} />,
            sortBy: ({ size_bytes: bytes }: Backup) => bytes ?? 0,
          },
          {
            id: 'found',
            title: 'Found in its bucket',
            cell: ({ verified_at: at }: Backup) => (at === null ? 'not yet' : <Time at={at} />),
          },
          {
            id: 'goes',
            title: 'Goes',
            cell: ({ expires_at: at, pinned }: Backup) => (at === null || pinned ? 'stays' : <Time at={at} />),
          },
          {
            id: 'menu',
            title: 'Actions',
            isNarrow: true,
            isBare: true,
            cell: (one: Backup) => (
              <BackupMenu it={one} run={act.run} onOpen={(dialog) => setOpen({ dialog, id: one.id })} />
            ),
          },
        ]}
      />
      {shown !== undefined && open?.dialog === 'details' && <BackupDetails it={shown} onClose={closed} />}
      {shown !== undefined && open?.dialog === 'delete' && <DeleteBackup it={shown} onClose={closed} />}
      {shown !== undefined && open?.dialog === 'restore' && <RestoreVolume backup={shown} onClose={closed} />}
      {shown !== undefined && open?.dialog === 'clone' && <CloneVolume backup={shown} onClose={closed} />}
    </>
  );
}

const methods = { logical: 'dump', physical: 'base backup', snapshot: 'archive of files' } as const;

function BackupStatus({ it }: { readonly it: Backup }): VNode {
  const waits = it.conditions.find(({ type, status }) => type === 'Ready' && status === 'false')?.message ?? '';
  return (
    <span class="stack-tight">
      <Status kind="backup" object={it} />
      {it.progress !== null && (
        <span class="small quiet numeric">
          {bytesText(it.progress.done_bytes)}, {bytesText(it.progress.bytes_per_second)}/s
        </span>
      )}
      {it.error !== null && <span class="small">{it.error.message}</span>}
      {it.status === 'pending' && waits !== '' && <span class="small quiet">{waits}</span>}
    </span>
  );
}

interface MenuProps {
  readonly it: Backup;
  readonly run: (act: () => Promise<unknown>) => Promise<boolean>;
  readonly onOpen: (dialog: 'details' | 'delete' | 'restore' | 'clone') => void;
}

function BackupMenu({ it, run, onOpen }: MenuProps): VNode {
  const { login, store, rights, router } = useConsole();
  const href = useHref();
  const rank = rights.rankIn(it.project_id);
  const admin = whyBelow(rank, 'admin');
  const change = (body: { readonly pinned: boolean }): void =>
    void run(() =>
      store.answer('backup', () => call(login, 'PUT', '/api/v1/backups/{id}', { path: { id: it.id }, body })),
    );
  const cancel = (): void =>
    void run(() =>
      store.answer('backup', () => call(login, 'POST', '/api/v1/backups/{id}/cancel', { path: { id: it.id } })),
    );
  const verify = (): void =>
    void run(() =>
      store.answer('restore', () => call(login, 'POST', '/api/v1/backups/{id}/verify', { path: { id: it.id } })),
    );
  const ofDatabase = it.kind === 'database';
  return (
    <Menu
      label={`Actions of the backup of ${it.name}`}
      icon="more"
      tone="plain"
      entries={[
        { label: 'Details and checks', onSelect: () => onOpen('details') },
        {
          label: ofDatabase ? 'Restore' : 'Restore into its volume',
          why: whyNot(backupVerbs, ofDatabase ? 'restore' : 'restore_volume', it) ?? admin,
          onSelect: () => {
            if (ofDatabase) router.go(href(['databases', it.resource_id, 'restore'], { backup: it.id }));
            else onOpen('restore');
          },
        },
        ...(ofDatabase
          ? []
          : [
              {
                label: backupVerbs.verbs.clone.label,
                why: whyNot(backupVerbs, 'clone', it) ?? admin,
                onSelect: () => onOpen('clone'),
              },
            ]),
        {
          label: backupVerbs.verbs.verify.label,
          why: whyNot(backupVerbs, 'verify', it) ?? admin,
          onSelect: verify,
        },
        {
          label: it.pinned ? 'Do not keep it for good' : 'Keep it for good',
          why: whyNot(backupVerbs, 'update', it) ?? admin,
          onSelect: () => change({ pinned: !it.pinned }),
        },
        {
          label: 'Cancel',
          why: whyNot(backupVerbs, 'cancel', it) ?? whyBelow(rank, 'member'),
          onSelect: cancel,
        },
        'line',
        {
          label: 'Delete',
          isDanger: true,
          why: whyNot(backupVerbs, 'delete', it) ?? admin,
          onSelect: () => onOpen('delete'),
        },
      ]}
    />
  );
}

function DeleteBackup({ it, onClose }: { readonly it: Backup; readonly onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('backup', () => call(login, 'DELETE', '/api/v1/backups/{id}', { path: { id: it.id } })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete a backup of ${it.name}`}
      verb="Delete the backup"
      goes={['Its object and its manifest in the bucket', 'The way back to this instant']}
      stays={[`The ${it.kind} ${it.name}, where it is still there`, 'All other backups of it']}
      type={it.status === 'completed' ? it.name : undefined}
      command={`setpoint delete backup ${it.id}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
