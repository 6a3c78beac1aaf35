import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { allBackups, allRestores } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import type { ObjectOf } from '../../model.ts';
import { Card } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Timeline } from '../../parts/timeline.tsx';
import { RestoreView } from '../backups/restore-view.tsx';
import type { PageProps } from '../page.ts';

/** One restore: its steps, what each touches, and what happened. */
export function RestorePage({ params }: PageProps): VNode {
  const { store } = useConsole();
  const href = useHref();
  const { reading } = useList(allRestores, 'restore');
  useList(allBackups, 'backup');
  const it = store.get('restore', params['id'] ?? '');
  const crumbs = [
    { label: 'Backups', href: href(['backups']) },
    { label: 'Restores', href: href(['backups', 'restores']) },
  ];
  if (it !== undefined)
    return (
      <Page title={`Restore of ${it.name}`} crumbs={crumbs} status={<Status kind="restore" object={it} />}>
        <Found it={it} />
      </Page>
    );
  return (
    <Page title="Restore" crumbs={crumbs}>
      {reading.state === 'failed' && <ErrorBox error={{ message: reading.message }} />}
      {reading.state === 'reading' && <Skeleton label="Reading the restore" />}
      {reading.state === 'ready' && (
        <Gone what="The restore" back={{ href: href(['backups', 'restores']), label: 'All restores' }} />
      )}
    </Page>
  );
}

function Found({ it }: { readonly it: ObjectOf<'restore'> }): VNode {
  const { login } = useConsole();
  const events = useRead(
    () => call(login, 'GET', '/api/v1/restores/{id}/events', { path: { id: it.id } }),
    [it.id, it.resource_version, it.status],
  );
  return (
    <>
      <Card title="Steps">
        <RestoreView it={it} />
      </Card>
      <div class="columns">
        <Card title="Conditions">
          <Conditions of={it.conditions} />
        </Card>
        <Card title="What happened">
          {events.error !== undefined && <ErrorBox error={events.error} onRetry={events.again} />}
          <Timeline
            label="Events"
            entries={(events.data ?? []).map((one) => ({
              key: `${one.reason} ${one.first_at}`,
              at: one.last_at,
              shape: one.type === 'warning' ? 'warn' : 'info',
              title: labelOf(one.reason),
              detail: one.message,
            }))}
          />
        </Card>
      </div>
    </>
  );
}
