import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { allRestores } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import type { ObjectOf } from '../../model.ts';
import { Bytes } from '../../parts/bytes.tsx';
import { Facts } from '../../parts/card.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { Id } from '../../parts/id.tsx';
import { durationText } from '../../parts/relative-time.ts';
import { labelOf } from '../../parts/schema-fields.ts';
import { Shape } from '../../parts/shape.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { Timeline } from '../../parts/timeline.tsx';
import { checksOf } from './backup-checks.ts';
import { useDestinations } from './destination-choice.tsx';

type Backup = ObjectOf<'backup'>;

/** All that is known of one backup: what was checked, where it is, and what happened to it. */
export function BackupDetails({ it, onClose }: { readonly it: Backup; readonly onClose: () => void }): VNode {
  const { login } = useConsole();
  const href = useHref();
  const restores = useList(allRestores, 'restore').objects.filter(
    ({ backup_id: id, status, is_drill: isTrial }) => id === it.id && status === 'completed' && !isTrial,
  );
  const destination = useDestinations().find(({ id }) => id === it.destination_id);
  const events = useRead(
    () => call(login, 'GET', '/api/v1/backups/{id}/events', { path: { id: it.id } }),
    [it.id, it.resource_version, it.status],
  );
  const { started_at: begin, completed_at: end } = it;
  return (
    <Drawer title={`Backup of ${it.name}`} onClose={onClose}>
      <ul class="confirm-list" aria-label="Checks">
        {checksOf(it, Date.now()).map(({ shape, text }) => (
          <li key={text}>
            <Shape of={shape} />
            <span>{text}</span>
          </li>
        ))}
      </ul>
      <Facts
        of={[
          ['Status', <Status key="status" kind="backup" object={it} />],
          ['Asked', <Time key="asked" at={it.requested_at} />],
          ['Took', begin === null || end === null ? undefined : durationText(Date.parse(end) - Date.parse(begin))],
          ['Engine', it.type === null ? undefined : `${it.type} ${it.version ?? ''}`],
          ['Size in the bucket', it.size_bytes === null ? undefined : <Bytes key="size" of={it.size_bytes} />],
          ['Before compression', it.dump_bytes === null ? undefined : <Bytes key="dump" of={it.dump_bytes} />],
          [
            'SHA-256',
            it.checksum_sha256 === null ? undefined : <Id key="sum" of={it.checksum_sha256} what="checksum" />,
          ],
          ['Destination', destination?.name],
          ['Key', <code key="key">{it.object_key}</code>],
          ['Notes', it.notes],
          ['Id', <Id key="id" of={it.id} />],
          [
            'Restores',
            restores.length === 0
              ? undefined
              : restores.map(({ id, name }, at) => (
                  <span key={id}>
                    {at > 0 && ', '}
                    <a href={href(['restores', id])}>{name}</a>
                  </span>
                )),
          ],
        ]}
      />
      <h3>Events</h3>
      <Timeline
        label="Events of the backup"
        entries={(events.data ?? []).map((one) => ({
          key: `${one.reason} ${one.first_at}`,
          at: one.last_at,
          shape: one.type === 'warning' ? 'warn' : 'info',
          title: labelOf(one.reason),
          detail: one.message,
        }))}
      />
    </Drawer>
  );
}
