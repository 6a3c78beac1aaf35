import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { allBackupSchedules, allRestores } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { isUnderWay } from '../backups/restore-steps.ts';
import { useBackupsOf } from '../backups/use-backups-of.ts';
import { CredentialsCard } from './credentials.tsx';
import { engineName } from './engine-name.ts';
import { Happenings } from './happenings.tsx';
import type { Database, TabProps } from './tab-props.ts';

const shownHappenings = 8;

/** What a database is now: the cause first where it does not work, then how one connects and how its data is kept. */
export function Overview({ it }: TabProps): VNode {
  const href = useHref();
  const parts = useDatabaseParts();
  const cause = waitsFor(it);
  const restore = useList(allRestores, 'restore').objects.find(
    (one) => one.database_id === it.id && isUnderWay(one.status) && !one.is_drill,
  );
  return (
    <>
      {cause !== '' && (
        <Notice
          shape={it.status === 'error' ? 'bad' : 'busy'}
          actions={<LinkButton href={href(parts(it, 'logs'))}>Log</LinkButton>}
        >
          <p>{cause}</p>
        </Notice>
      )}
      {restore !== undefined && (
        <Notice
          shape={restore.status === 'ready_to_switch' ? 'warn' : 'busy'}
          actions={<LinkButton href={href(parts(it, 'restore'))}>To the restore</LinkButton>}
        >
          <p>
            {restore.status === 'ready_to_switch'
              ? 'What was recovered waits beside it: look at it, then switch or cancel.'
              : 'A restore into it is under way. It serves what it served before until that is checked.'}
          </p>
        </Notice>
      )}
      {it.status === 'stopped' && it.image_digest === null && (
        <EmptyState title="It was never started" command={`setpoint db start ${shellQuoted(it.name)}`}>
          Its volume is empty. “Start” pulls the image of its engine and makes user and database.
        </EmptyState>
      )}
      <div class="columns">
        <CredentialsCard it={it} />
        <Card title="At a glance">
          <AtAGlance it={it} />
        </Card>
        <Card title="Backups" actions={<LinkButton href={href(parts(it, 'backups'))}>All backups</LinkButton>}>
          <Kept it={it} />
        </Card>
        <Card title="Conditions">
          <Conditions of={it.conditions} />
        </Card>
      </div>
      <Card title="What happened">
        <Happenings it={it} most={shownHappenings} />
      </Card>
    </>
  );
}

function AtAGlance({ it }: { readonly it: Database }): VNode {
  const { store, login } = useConsole();
  const href = useHref();
  const server = store.get('server', it.server_id);
  const users = useRead(
    () => call(login, 'GET', '/api/v1/databases/{id}/dependencies', { path: { id: it.id } }),
    [it.id, it.resource_version],
  ).data;
  const usedBy = [
    ...(users?.applications ?? []).map(({ id, name }) => ({ id, name, kind: 'applications' })),
    ...(users?.functions ?? []).map(({ id, name }) => ({ id, name, kind: 'functions' })),
  ];
  const parameters = Object.entries(it.parameters);
  return (
    <Facts
      of={[
        ['Engine', `${engineName(it.type)} ${it.version}`],
        ['Image', <code key="image">{it.image}</code>],
        ['Server', server === undefined ? undefined : <a href={href(['servers', server.id])}>{server.name}</a>],
        ['Port outside', it.exposed_port === null ? 'none' : String(it.exposed_port)],
        ['Connections', it.connection_pooling ? 'pooled by PgBouncer, or direct' : undefined],
        ['TLS', it.require_tls ? 'required' : it.certificate_expires_at === null ? undefined : 'offered'],
        [
          'Limits',
          [it.memory_limit, it.cpu_limit === null ? null : `${it.cpu_limit} CPU`].filter(Boolean).join(', ') || 'none',
        ],
        ['Parameters', parameters.map(([name, value]) => `${name}=${value}`).join(', ')],
        [
          'Used by',
          users === undefined
            ? undefined
            : usedBy.length === 0
              ? 'no application'
              : usedBy.map(({ id, name, kind }, at) => (
                  <span key={id}>
                    {at > 0 && ', '}
                    <a href={href([kind, id])}>{name}</a>
                  </span>
                )),
        ],
        [
          'Part of',
          users?.template_instance === null || users?.template_instance === undefined ? undefined : (
            <a href={href(['instances', users.template_instance.id])}>{users.template_instance.name}</a>
          ),
        ],
        ['Made', <Time key="made" at={it.created_at} />],
        ['Changed', <Time key="changed" at={it.updated_at} />],
      ]}
    />
  );
}

/** Whether the data has a copy elsewhere. */
function Kept({ it }: { readonly it: Database }): VNode {
  const href = useHref();
  const parts = useDatabaseParts();
  const { backups, reading } = useBackupsOf('database', it.id);
  const schedules = useList(allBackupSchedules, 'backup_schedule').objects.filter(
    ({ database_id: id }) => id === it.id,
  );
  const [next] = schedules.flatMap(({ next_run_at: at }) => (at === null ? [] : [at])).toSorted();
  const good = backups.find(({ status }) => status === 'completed');
  const [newest] = backups;
  const hasNone = reading.state === 'ready' && good === undefined && it.backup_mode === 'none';
  return (
    <div class="stack-tight">
      {hasNone && (
        <Notice shape="warn" actions={<LinkButton href={href(parts(it, 'backups'))}>Make a schedule</LinkButton>}>
          <p>It has no copy elsewhere: if its volume is lost, its data is.</p>
        </Notice>
      )}
      <Facts
        of={[
          [
            'Last good one',
            good === undefined ? 'none' : <Time key="good" at={good.completed_at ?? good.requested_at} />,
          ],
          [
            'Newest',
            newest === undefined || newest === good ? undefined : (
              <Status key="newest" kind="backup" object={newest} since={newest.requested_at} />
            ),
          ],
          [
            'Schedules',
            schedules.length === 0
              ? 'none'
              : schedules.map((one) => <Status key={one.id} kind="backup_schedule" object={one} />),
          ],
          ['Next', next === undefined ? undefined : <Time key="next" at={next} />],
          ['Any instant', it.backup_mode === 'pitr' ? 'what it writes is archived' : 'not archived'],
        ]}
      />
    </div>
  );
}
