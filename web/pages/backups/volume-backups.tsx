import type { VNode } from 'preact';
import { allRestores } from '../../frame/collections.ts';
import { useList } from '../../frame/context.ts';
import type { ObjectOf } from '../../model.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Command } from '../../parts/command.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { BackupLine } from './backup-line.tsx';
import { BackupTable } from './backup-table.tsx';
import { RestoresTable } from './restores-table.tsx';
import { newestFirst, useBackupsOf } from './use-backups-of.ts';

/** The backups of a volume, from which it is restored or cloned, and what brought it back. */
export function VolumeBackups(props: { readonly volume: ObjectOf<'volume'>; readonly onClose: () => void }): VNode {
  const { volume, onClose } = props;
  const { backups, reading } = useBackupsOf('volume', volume.id);
  const restores = newestFirst(
    useList(allRestores, 'restore').objects.filter(
      ({ kind, resource_id: id }) => kind === 'volume' && id === volume.id,
    ),
  );
  return (
    <Dialog title={`Backups of ${volume.name}`} onClose={onClose} isWide>
      {reading.state === 'failed' && <ErrorBox error={{ message: reading.message }} />}
      {reading.state === 'reading' && backups.length === 0 && <Skeleton label="Reading backups" />}
      {reading.state === 'ready' && backups.length === 0 && (
        <>
          <p>It has no backup: if the volume is lost, its data is.</p>
          <Command text={`setpoint backup ${shellQuoted(volume.name)}`} />
        </>
      )}
      {backups.length > 0 && (
        <>
          <BackupLine of={backups} />
          <BackupTable rows={backups} />
        </>
      )}
      {restores.length > 0 && (
        <>
          <h3>Restores</h3>
          <RestoresTable rows={restores} />
        </>
      )}
    </Dialog>
  );
}
