import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call, page } from '../../api.ts';
import { partsOfObject } from '../../frame/object-links.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { paced } from '../../frame/paced.ts';
import { followStream } from '../../frame/stream.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Notification } from '../../model.ts';
import type { PageProps } from '../page.ts';
import { Button } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Page } from '../../parts/page.tsx';
import type { Refusal } from '../../parts/refusal.ts';
import { refusalOf } from '../../parts/refusal.ts';
import { Shape } from '../../parts/shape.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

const pageSize = 100;
const shapes = { info: 'info', warning: 'warn', error: 'bad' } as const;

/** Notifications without a gap, newest first, and where further ones begin; `null`: there is none. */
interface List {
  readonly items: readonly Notification[];
  readonly next: string | null;
}

/** What the control plane told the reader, newest first; several can be marked as read at once. */
export function NotificationsPage({ query }: PageProps): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const onlyUnread = query.get('unread') === 'true';
  const [list, setList] = useState<List>();
  const { items, next = null } = list ?? {};
  const filter = useRef(onlyUnread);
  filter.current = onlyUnread;
  const [unread, setUnread] = useState(0);
  const [error, setError] = useState<Refusal>();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const ask = (cursor?: string) =>
    page(login, '/api/v1/notifications', {
      query: {
        limit: pageSize,
        ...(onlyUnread && { unread: 'true' as const }),
        ...(cursor !== undefined && { cursor }),
      },
    });
  // each notification that is marked as read sends a frame
  const read = useMemo(
    () =>
      paced(() =>
        ask().then(
          (found) => {
            // one of the former filter
            if (filter.current !== onlyUnread) return;
            setList((now) => withNewest(now, { items: found.items, next: found.meta.next_cursor }));
            setUnread(found.meta.unread ?? 0);
            setError(undefined);
          },
          (failure: unknown) => setError(refusalOf(failure)),
        ),
      ),
    [login, onlyUnread],
  );
  useEffect(() => {
    setList(undefined);
    return followStream({
      login,
      path: '/ws/notifications',
      onFrame: ({ type }) => {
        if (type === 'ready' || type === 'gap' || type === 'notification') read();
      },
    });
  }, [login, onlyUnread]);
  const mark = async (body: { ids: string[] } | { all: true }): Promise<void> => {
    if (await act.run(() => call(login, 'POST', '/api/v1/notifications/read', { body }))) {
      setSelected(new Set());
      // those of further pages are not read again
      const isMarked = (id: string): boolean => 'all' in body || body.ids.includes(id);
      setList(
        (now) => now && { ...now, items: now.items.map((one) => (isMarked(one.id) ? { ...one, read: true } : one)) },
      );
      read();
    }
  };
  const more = async (): Promise<void> => {
    await act.run(async () => {
      const found = await ask(next ?? undefined);
      // it may have begun anew meanwhile
      setList((now) =>
        now === undefined || now.next !== next
          ? now
          : { items: [...now.items, ...found.items], next: found.meta.next_cursor },
      );
    });
  };
  return (
    <Page
      title="Notifications"
      actions={
        <Button
          busy={act.busy}
          why={unread === 0 ? 'All are read' : undefined}
          onClick={() => void mark({ all: true })}
        >
          Mark all as read
        </Button>
      }
    >
      <Filters
        fields={[{ name: 'unread', label: 'Which', options: [{ value: 'true', label: 'Unread' }] }]}
        values={onlyUnread ? { unread: 'true' } : {}}
        onChange={(values) => router.replace(href(['notifications'], values))}
      />
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {error !== undefined && <ErrorBox error={error} onRetry={read} />}
      {items === undefined && error === undefined && <Skeleton label="Reading notifications" />}
      {items !== undefined && (
        <Table
          label="Notifications"
          rows={items}
          keyOf={({ id }) => id}
          selected={selected}
          onSelect={setSelected}
          bulk={
            <Button isSmall busy={act.busy} onClick={() => void mark({ ids: [...selected] })}>
              Mark as read
            </Button>
          }
          empty={
            <EmptyState title={onlyUnread ? 'All are read' : 'Nothing needs you'}>
              Failed deployments, lost servers and backups that are missing are told here, and by mail.
            </EmptyState>
          }
          columns={[
            {
              id: 'title',
              title: 'What',
              isPrimary: true,
              cell: (one) => (
                <span class="status">
                  <Shape of={shapes[one.severity]} />
                  <span>
                    <Title of={one} /> {!one.read && <span class="sr-only">(unread)</span>}
                    <span class="small quiet notification-text">{one.message}</span>
                  </span>
                </span>
              ),
            },
            {
              id: 'at',
              title: 'When',
              cell: ({ created_at: at }) => <Time at={at} />,
              sortBy: ({ created_at: at }) => at,
            },
          ]}
        />
      )}
      {next !== null && (
        <span>
          <Button busy={act.busy} onClick={() => void more()}>
            Show older ones
          </Button>
        </span>
      )}
    </Page>
  );
}

function Title({ of }: { readonly of: Notification }): VNode {
  const href = useHref();
  const parts = of.resource === null ? undefined : partsOfObject(of.resource);
  const weight = of.read ? '' : 'strong';
  if (parts === undefined) return <span class={weight}>{of.title}</span>;
  return (
    <a class={weight} href={href(parts)}>
      {of.title}
    </a>
  );
}

/** The newest page in place of what was known of its time, with what is older; by itself where it does not meet that. */
function withNewest(known: List | undefined, newest: List): List {
  const ids = new Set(newest.items.map(({ id }) => id));
  const met = known?.items.findLastIndex(({ id }) => ids.has(id)) ?? -1;
  if (known === undefined || met < 0 || newest.next === null) return newest;
  return { items: [...newest.items, ...known.items.slice(met + 1)], next: known.next };
}
