import type { VNode } from 'preact';
import { call, page } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Application, Deployment, ObjectEvent } from '../../model.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import { lookOf } from '../../parts/status-words.ts';
import { Timeline } from '../../parts/timeline.tsx';
import type { TimelineEntry } from '../../parts/timeline.tsx';
import { changesOf } from './changes-by-people.ts';
import { useDeployments } from './deployments.ts';

const readChanges = 100;

interface HappeningsProps {
  readonly it: Application;
  /** The newest so many. */
  readonly most: number;
}

/** One timeline of events, deployments and changes by people. */
export function Happenings({ it, most }: HappeningsProps): VNode {
  const { login } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const deployments = useDeployments(it);
  const observed = JSON.stringify([it.status, it.ready_replicas, it.conditions]);
  const version = [it.id, it.resource_version, observed, ...deployments.map(({ status }) => status)];
  const events = useRead(
    () => call(login, 'GET', '/api/v1/applications/{id}/events', { path: { id: it.id } }),
    version,
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
    // deployments are rows of their own
    ...(events.data ?? []).filter(({ reason }) => !reason.startsWith('Deployment')).map((one) => ofEvent(one)),
    ...deployments.map((one) => ofDeployment(one, href(parts(it, 'deployments', one.id)))),
    ...changesOf(changes.data ?? []),
  ].toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at));
  return (
    <>
      {events.error !== undefined && <ErrorBox error={events.error} onRetry={events.again} />}
      {events.data === undefined && events.error === undefined ? (
        <Skeleton lines={3} label="Reading events" />
      ) : (
        <Timeline label="Events" entries={entries.slice(0, most)} />
      )}
      {entries.length > most && (
        <p>
          <a href={href(parts(it, 'events'))}>All {entries.length}</a>
        </p>
      )}
    </>
  );
}

function ofEvent(one: ObjectEvent): TimelineEntry {
  return {
    key: `event ${one.reason} ${one.about ?? ''} ${one.first_at}`,
    at: one.last_at,
    shape: one.type === 'warning' ? 'warn' : 'info',
    title: `${labelOf(one.reason)}${one.count > 1 ? ` ×${one.count}` : ''}`,
    detail: one.message,
  };
}

function ofDeployment(one: Deployment, href: string): TimelineEntry {
  const { word, shape } = lookOf('deployment', one);
  return {
    key: `deployment ${one.id}`,
    at: one.finished_at ?? one.queued_at,
    shape,
    title: (
      <>
        <a href={href}>Deployment #{one.number}</a> {word.toLowerCase()}
      </>
    ),
    detail: one.error?.message ?? `${one.trigger}${one.commit_message === null ? '' : `: ${one.commit_message}`}`,
  };
}
