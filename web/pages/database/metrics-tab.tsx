import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { Bytes } from '../../parts/bytes.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { RangePicker, rangeOf, ranges } from '../../parts/range-picker.tsx';
import { durationText } from '../../parts/relative-time.ts';
import { Series } from '../../parts/series.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { bytesText, parseBytes } from '../../parts/units.ts';
import type { Database, TabProps } from './tab-props.ts';

/** Points of a chart, at most. */
const mostPoints = 300;
const leastStepSeconds = 5;

/** Load of a database over time, its connections, and what its data takes. */
export function MetricsTab(props: TabProps): VNode {
  const { it } = props;
  if (it.status !== 'running')
    return (
      <Notice shape="info">
        <p>It is measured by queries of its engine, which it answers once it runs.</p>
      </Notice>
    );
  return (
    <div class="stack">
      <Load {...props} />
      <Storage it={it} />
    </div>
  );
}

function Load({ it, query }: TabProps): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const range = rangeOf(query.get('range'));
  const step = Math.max(leastStepSeconds, Math.ceil(ranges[range] / mostPoints));
  const metrics = useRead(
    () =>
      call(login, 'GET', '/api/v1/databases/{id}/metrics', {
        path: { id: it.id },
        query: { since: range, step: `${step}s` },
      }),
    [it.id, range, it.resource_version],
  );
  const points = metrics.data?.series.points ?? [];
  const times = points.map(({ timestamp }) => Date.parse(timestamp) / 1000);
  const limit = it.memory_limit === null ? undefined : parseBytes(it.memory_limit);
  const shared = { group: it.id, times };
  return (
    <>
      <div class="row-apart">
        <RangePicker value={range} onChange={(next) => router.replace(href(parts(it, 'metrics'), { range: next }))} />
        <Button icon="refresh" onClick={metrics.again}>
          Read again
        </Button>
      </div>
      <Card title="Load">
        {metrics.error !== undefined && <ErrorBox error={metrics.error} onRetry={metrics.again} />}
        {metrics.data === undefined && metrics.error === undefined && <Skeleton label="Reading load" />}
        {metrics.data !== undefined && (
          <Facts
            of={[
              ['Connections', connectionsText(metrics.data)],
              [
                'Runs for',
                metrics.data.uptime_seconds === null ? undefined : durationText(metrics.data.uptime_seconds * 1000),
              ],
              ['Asked', <Time key="asked" at={metrics.data.collected_at} />],
            ]}
          />
        )}
        {metrics.data !== undefined && points.length === 0 && (
          <EmptyState title="Nothing was measured in this time">
            The agent measures each database that runs, every five seconds.
          </EmptyState>
        )}
        {points.length > 0 && (
          <div class="charts">
            <Series
              {...shared}
              title="Processor"
              lines={[{ label: 'Processor', values: points.map(({ cpu }) => cpu.percent) }]}
              format={(value) => `${value.toFixed(value < 10 ? 1 : 0)} %`}
            />
            <Series
              {...shared}
              title="Memory"
              lines={[{ label: 'Memory', values: points.map(({ memory }) => memory.used_bytes) }]}
              format={bytesText}
              {...(limit !== undefined && { limit })}
            />
            <Series
              {...shared}
              title="Network"
              lines={[
                { label: 'In', values: points.map(({ network }) => network.rx_bps) },
                { label: 'Out', values: points.map(({ network }) => network.tx_bps) },
              ]}
              format={(value) => `${bytesText(value)}/s`}
            />
            <Series
              {...shared}
              title="Disk"
              lines={[
                { label: 'Read', values: points.map(({ disk }) => disk.read_bps) },
                { label: 'Written', values: points.map(({ disk }) => disk.write_bps) },
              ]}
              format={(value) => `${bytesText(value)}/s`}
            />
          </div>
        )}
      </Card>
    </>
  );
}

function connectionsText(of: {
  readonly connections: number | null;
  readonly connections_error: string | null;
  readonly max_connections: number | null;
}): string | undefined {
  if (of.connections === null) return of.connections_error ?? undefined;
  return of.max_connections === null ? String(of.connections) : `${of.connections} of ${of.max_connections}`;
}

function Storage({ it }: { readonly it: Database }): VNode {
  const { login } = useConsole();
  const storage = useRead(
    () => call(login, 'GET', '/api/v1/databases/{id}/storage', { path: { id: it.id } }),
    [it.id, it.resource_version],
  );
  const { data } = storage;
  return (
    <Card
      title="Storage"
      actions={
        <Button isSmall icon="refresh" onClick={storage.again}>
          Read again
        </Button>
      }
    >
      {storage.error !== undefined && <ErrorBox error={storage.error} onRetry={storage.again} />}
      {data === undefined && storage.error === undefined && <Skeleton lines={2} label="Reading storage" />}
      {data !== undefined && (
        <>
          <Facts
            of={[
              ['Its databases', <Bytes key="used" of={data.used_bytes} />],
              ['Its volume', data.volume_bytes === null ? 'not known' : <Bytes key="volume" of={data.volume_bytes} />],
            ]}
          />
          <Table
            label="Databases in it"
            rows={data.databases}
            keyOf={({ name }) => name}
            sort={{ column: 'bytes', isDescending: true }}
            columns={[
              {
                id: 'name',
                title: 'Name',
                isPrimary: true,
                cell: ({ name }) => <code>{name}</code>,
                sortBy: ({ name }) => name,
              },
              {
                id: 'bytes',
                title: 'Takes',
                isNumber: true,
                cell: ({ bytes }) => <Bytes of={bytes} />,
                sortBy: ({ bytes }) => bytes,
              },
            ]}
          />
        </>
      )}
    </Card>
  );
}
