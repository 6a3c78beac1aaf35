import type { VNode } from 'preact';
import { call, page } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Timeline } from '../../parts/timeline.tsx';
import type { TimelineEntry } from '../../parts/timeline.tsx';
import { changesOf } from '../application/changes-by-people.ts';
import type { Fn } from './tab-props.ts';

const readChanges = 100;
const mostShown = 30;

/** One timeline of events and changes by people. */
export function Happenings({ it }: { readonly it: Fn }): VNode {
  const { login } = useConsole();
  const observed = JSON.stringify([it.status, it.conditions]);
  const events = useRead(
    () => call(login, 'GET', '/api/v1/functions/{id}/events', { path: { id: it.id } }),
    [it.id, it.resource_version, observed],
  );
  // a reader who may not read the audit log sees the rest
  const changes = useRead(
    () =>
      page(login, '/api/v1/audit', { query: { id: it.id, limit: readChanges } }).then(
        ({ items }) => items,
        () => [],
      ),
    [it.id, it.generation],
  );
  const entries = [
    ...(events.data ?? []).map((one): TimelineEntry => ({
      key: `event ${one.reason} ${one.about ?? ''} ${one.first_at}`,
      at: one.last_at,
      shape: one.type === 'warning' ? 'warn' : 'info',
      title: `${labelOf(one.reason)}${one.count > 1 ? ` ×${one.count}` : ''}`,
      detail: one.message,
    })),
    ...changesOf(changes.data ?? []),
  ].toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at));
  return (
    <>
      {events.error !== undefined && <ErrorBox error={events.error} onRetry={events.again} />}
      {events.data === undefined && events.error === undefined ? (
        <Skeleton lines={3} label="Reading events" />
      ) : (
        <Timeline label="Events" entries={entries.slice(0, mostShown)} />
      )}
    </>
  );
}
