import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { followStream } from '../../frame/stream.ts';
import { useRead } from '../../frame/use-read.ts';
import { Card } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { RangePicker, rangeOf, ranges } from '../../parts/range-picker.tsx';
import { Series } from '../../parts/series.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { bytesText } from '../../parts/units.ts';
import type { TabProps } from './tab-props.ts';
import { useDeployments } from './deployments.ts';

/** Points of a chart, at most. */
const mostPoints = 300;
const leastStepSeconds = 5;

/** Load and requests of an application over time; deployments are marked. */
export function MetricsTab({ it, query }: TabProps): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const range = rangeOf(query.get('range'));
  const seconds = ranges[range];
  const step = Math.max(leastStepSeconds, Math.ceil(seconds / mostPoints));
  const beat = useTrafficBeat(it.id, step);
  const asked = { path: { id: it.id }, query: { since: range, step: `${step}s` } };
  const metrics = useRead(() => call(login, 'GET', '/api/v1/applications/{id}/metrics', asked), [it.id, range, beat]);
  const traffic = useRead(() => call(login, 'GET', '/api/v1/applications/{id}/traffic', asked), [it.id, range, beat]);
  const marks = useDeployments(it)
    .filter(({ finished_at: at }) => at !== null)
    .map((one) => ({ at: Date.parse(one.finished_at ?? one.queued_at) / 1000, label: `#${one.number}` }));
  const points = metrics.data?.points ?? [];
  const times = points.map(({ timestamp }) => Date.parse(timestamp) / 1000);
  const limit = points.findLast(({ memory }) => memory.limit_bytes !== null)?.memory.limit_bytes;
  const shared = { group: it.id, marks };
  return (
    <div class="stack">
      <RangePicker value={range} onChange={(next) => router.replace(href(parts(it, 'metrics'), { range: next }))} />
      <Card title="Load">
        {metrics.error !== undefined && <ErrorBox error={metrics.error} onRetry={metrics.again} />}
        {metrics.data === undefined && metrics.error === undefined && <Skeleton label="Reading load" />}
        {metrics.data !== undefined && points.length === 0 && (
          <EmptyState title="Nothing was measured in this time">
            The agent measures each instance that runs, every five seconds.
          </EmptyState>
        )}
        {points.length > 0 && (
          <div class="charts">
            <Series
              {...shared}
              title="Processor"
              times={times}
              lines={[{ label: 'Processor', values: points.map(({ cpu }) => cpu.percent) }]}
              format={(value) => `${value.toFixed(value < 10 ? 1 : 0)} %`}
            />
            <Series
              {...shared}
              title="Memory"
              times={times}
              lines={[{ label: 'Memory', values: points.map(({ memory }) => memory.used_bytes) }]}
              format={bytesText}
              {...(typeof limit === 'number' && { limit })}
            />
            <Series
              {...shared}
              title="Network"
              times={times}
              lines={[
                { label: 'In', values: points.map(({ network }) => network.rx_bps) },
                { label: 'Out', values: points.map(({ network }) => network.tx_bps) },
              ]}
              format={(value) => `${bytesText(value)}/s`}
            />
            <Series
              {...shared}
              title="Disk"
              times={times}
              lines={[
                { label: 'Read', values: points.map(({ disk }) => disk.read_bps) },
                { label: 'Written', values: points.map(({ disk }) => disk.write_bps) },
              ]}
              format={(value) => `${bytesText(value)}/s`}
            />
          </div>
        )}
      </Card>
      <Card title="Requests">
        {traffic.error !== undefined && <ErrorBox error={traffic.error} onRetry={traffic.again} />}
        {traffic.data?.available === false && (
          <Notice shape="info">
            <p>{traffic.data.message ?? 'Requests do not come by the proxy of the server, and so are not counted.'}</p>
          </Notice>
        )}
        {traffic.data?.available === true && <Traffic of={traffic.data.points} shared={shared} />}
      </Card>
    </div>
  );
}

interface TrafficProps {
  readonly of: readonly {
    readonly timestamp: string;
    readonly rps: number;
    readonly requests: number;
    readonly status: Readonly<Record<string, number>>;
    readonly latency_ms: { readonly p50: number | null; readonly p95: number | null; readonly p99: number | null };
  }[];
  readonly shared: {
    readonly group: string;
    readonly marks: readonly { readonly at: number; readonly label: string }[];
  };
}

function Traffic({ of, shared }: TrafficProps): VNode {
  if (of.length === 0)
    return <EmptyState title="No request in this time">Requests to its domains are counted here.</EmptyState>;
  const times = of.map(({ timestamp }) => Date.parse(timestamp) / 1000);
  return (
    <div class="charts">
      <Series
        {...shared}
        title="Requests per second"
        times={times}
        lines={[{ label: 'Requests', values: of.map(({ rps }) => rps) }]}
        format={(value) => `${value.toFixed(value < 10 ? 1 : 0)}/s`}
      />
      <Series
        {...shared}
        title="Answers that failed"
        times={times}
        lines={[
          { label: '4xx', values: of.map(({ status }) => status['4xx'] ?? 0) },
          { label: '5xx', values: of.map(({ status }) => status['5xx'] ?? 0) },
        ]}
        format={(value) => String(Math.round(value))}
      />
      <Series
        {...shared}
        title="Time to answer"
        times={times}
        lines={[
          { label: 'p50', values: of.map(({ latency_ms: ms }) => ms.p50) },
          { label: 'p95', values: of.map(({ latency_ms: ms }) => ms.p95) },
          { label: 'p99', values: of.map(({ latency_ms: ms }) => ms.p99) },
        ]}
        format={(value) => `${Math.round(value)} ms`}
      />
    </div>
  );
}

/** Changes once per step while frames of requests come, so that the charts are read again. */
function useTrafficBeat(id: string, step: number): number {
  const { login } = useConsole();
  const [beat, setBeat] = useState(0);
  useEffect(() => {
    let last = Date.now();
    return followStream({
      login,
      path: `/ws/applications/${id}/traffic`,
      onFrame: ({ type }) => {
        if (type !== 'traffic' || document.hidden || Date.now() - last < step * 1000) return;
        last = Date.now();
        setBeat((count) => count + 1);
      },
    });
  }, [id, step]);
  return beat;
}
