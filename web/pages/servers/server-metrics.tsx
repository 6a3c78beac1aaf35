import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useConsole, useHref } from '../../frame/context.ts';
import type { Server } from '../../model.ts';
import { Card } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { RangePicker, ranges } from '../../parts/range-picker.tsx';
import type { Range } from '../../parts/range-picker.tsx';
import { Series } from '../../parts/series.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { bytesText, percentText } from '../../parts/units.ts';
import { useServerMetrics } from './use-server-metrics.ts';

const perSecond = (value: number): string => `${bytesText(value)}/s`;
const loadText = (value: number): string => value.toFixed(2);

/** Processor, memory, disk and network of a server over time, and what takes them. */
export function ServerMetrics({ server }: { readonly server: Server }): VNode {
  const [range, setRange] = useState<Range>('1h');
  const metrics = useServerMetrics(server, range);
  const { ring, last, error, again, trouble } = metrics;
  const [first, end] = [ring.times[0], ring.times.at(-1)];
  const shown = first === undefined || end === undefined ? undefined : ([end - ranges[range], end] as const);
  const shared = { times: ring.times, range: shown, group: server.id };
  return (
    <div class="stack">
      <div class="row-apart">
        <RangePicker value={range} onChange={setRange} />
        {trouble !== undefined && <span class="small tone-warn">No live values: {trouble}</span>}
      </div>
      {error !== undefined && <ErrorBox error={error} onRetry={again} />}
      {server.agent_status !== 'connected' && (
        <Notice shape="warn">
          <p>Its agent is not connected: its metrics are kept on the server, and are read when it is back.</p>
        </Notice>
      )}
      {ring.times.length === 0 && error === undefined && server.agent_status === 'connected' && (
        <Skeleton label="Reading metrics" />
      )}
      {ring.times.length > 0 && (
        <div class="cards cards-wide">
          <Series
            {...shared}
            title="Processor"
            lines={[{ label: 'Processor', values: ring.column(0) }]}
            format={percentText}
            limit={100}
          />
          <Series
            {...shared}
            title="Load of a minute"
            lines={[{ label: 'Load', values: ring.column(1) }]}
            format={loadText}
          />
          <Series
            {...shared}
            title="Memory"
            lines={[{ label: 'Used', values: ring.column(2) }]}
            format={bytesText}
            limit={last?.memoryTotal ?? undefined}
          />
          <Series
            {...shared}
            title="Disk"
            lines={[{ label: 'Used', values: ring.column(3) }]}
            format={bytesText}
            limit={last?.diskTotal ?? undefined}
          />
          {ring.column(4).some((value) => value !== null) && (
            <Series
              {...shared}
              title="Network"
              lines={[
                { label: 'Received', values: ring.column(4) },
                { label: 'Sent', values: ring.column(5) },
              ]}
              format={perSecond}
            />
          )}
        </div>
      )}
      <Usage metrics={metrics} />
    </div>
  );
}

function Usage({ metrics }: { readonly metrics: ReturnType<typeof useServerMetrics> }): VNode | null {
  const { store } = useConsole();
  const href = useHref();
  if (metrics.workloads.length === 0) return null;
  const nameOf = (id: string): string =>
    store.get('application', id)?.name ?? store.get('database', id)?.name ?? `${id.slice(0, 8)}…`;
  return (
    <Card title="What takes it now">
      <Table
        label="Workloads by what they take"
        rows={metrics.workloads}
        keyOf={({ workload_id: id }) => id}
        sort={{ column: 'memory', isDescending: true }}
        empty={
          <EmptyState title="Nothing runs here">Workloads on this server are listed with what they take.</EmptyState>
        }
        columns={[
          {
            id: 'name',
            title: 'Workload',
            isPrimary: true,
            cell: ({ workload_id: id }) =>
              store.get('application', id) === undefined ? (
                nameOf(id)
              ) : (
                <a href={href(['applications', id])}>{nameOf(id)}</a>
              ),
            sortBy: ({ workload_id: id }) => nameOf(id),
          },
          { id: 'instances', title: 'Instances', isNumber: true, cell: ({ instances }) => instances },
          {
            id: 'cpu',
            title: 'Processor',
            isNumber: true,
            cell: ({ cpu }) => (cpu.percent === null ? '–' : percentText(cpu.percent)),
            sortBy: ({ cpu }) => cpu.percent ?? 0,
          },
          {
            id: 'memory',
            title: 'Memory',
            isNumber: true,
            cell: ({ memory }) => (memory.used_bytes === null ? '–' : bytesText(memory.used_bytes)),
            sortBy: ({ memory }) => memory.used_bytes ?? 0,
          },
          {
            id: 'network',
            title: 'Network',
            isNumber: true,
            cell: ({ network }) =>
              network.rx_bps === null ? '–' : `${perSecond(network.rx_bps)} in, ${perSecond(network.tx_bps ?? 0)} out`,
          },
        ]}
      />
    </Card>
  );
}
