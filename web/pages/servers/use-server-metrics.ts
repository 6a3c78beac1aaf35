import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import type { components } from '../../api-types.d.ts';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { followStream } from '../../frame/stream.ts';
import type { Frame } from '../../frame/stream.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Server } from '../../model.ts';
import { ranges } from '../../parts/range-picker.tsx';
import type { Range } from '../../parts/range-picker.tsx';
import type { Refusal } from '../../parts/refusal.ts';
import { SeriesRing } from '../../parts/series-ring.ts';

type Point = Pick<components['schemas']['ServerMetricsPoint'], 'timestamp' | 'cpu' | 'memory' | 'disk' | 'network'>;

interface MetricsFrame extends Frame {
  readonly timestamp: string;
  readonly cpu: { readonly percent: number | null; readonly cores?: number; readonly load1: number | null };
  readonly memory: Point['memory'];
  readonly disk: Point['disk'];
  readonly network?: NonNullable<Point['network']>;
}

/** The newest values. */
interface Latest {
  readonly cpu: number | null;
  readonly cores: number | undefined;
  readonly memory: number | null;
  readonly memoryTotal: number | null;
  readonly disk: number | null;
  readonly diskTotal: number | null;
}

export interface ServerSeries {
  /** Columns: processor, load, memory, disk, received, sent. */
  readonly ring: SeriesRing;
  readonly last: Latest | undefined;
  readonly workloads: readonly components['schemas']['WorkloadUsage'][];
  readonly error: Refusal | undefined;
  readonly trouble: string | undefined;
  readonly again: () => void;
}

const columns = 6;
const mostPoints = 2100;
const newestStepSeconds = 5;
/** A longer range is read again, as its steps are longer than what comes live. */
const liveUpTo = 3600;
const rereadMs = 60_000;

/** The load of a server over a range that ends now: what is kept of it, and then what comes live. */
export function useServerMetrics(server: Server, range: Range): ServerSeries {
  const { login } = useConsole();
  const [, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const [trouble, setTrouble] = useState<string>();
  const ring = useRef(new SeriesRing(columns, mostPoints));
  const last = useRef<Latest | undefined>(undefined);
  const seconds = ranges[range];
  const step = Math.max(newestStepSeconds, Math.ceil(seconds / 600 / 5) * 5);
  const isConnected = server.agent_status === 'connected';
  const history = useRead(
    () =>
      call(login, 'GET', '/api/v1/servers/{id}/metrics', {
        path: { id: server.id },
        query: { since: `${Math.round(seconds / 60)}m`, step: `${step}s` },
      }),
    [server.id, range, isConnected],
  );
  useEffect(() => {
    if (history.data === undefined) return;
    ring.current = new SeriesRing(columns, mostPoints);
    for (const point of history.data.points) take(ring.current, last, point);
    draw(undefined);
  }, [history.data]);
  useEffect(() => {
    if (!isConnected) return undefined;
    return followStream({
      login,
      path: `/ws/servers/${server.id}/metrics`,
      onTrouble: setTrouble,
      onFrame: (frame) => {
        if (frame.type !== 'metrics') return;
        take(seconds <= liveUpTo ? ring.current : undefined, last, frame as MetricsFrame); // the type says so
        draw(undefined);
      },
    });
  }, [server.id, isConnected, seconds]);
  useEffect(() => {
    if (seconds <= liveUpTo) return undefined;
    const timer = setInterval(history.again, rereadMs);
    return () => clearInterval(timer);
  }, [seconds]);
  return {
    ring: ring.current,
    last: last.current,
    workloads: history.data?.workloads ?? [],
    error: history.error,
    trouble,
    again: history.again,
  };
}

function take(
  ring: SeriesRing | undefined,
  last: { current: Latest | undefined },
  { timestamp, cpu, memory, disk, network }: Point | MetricsFrame,
): void {
  ring?.push(Math.round(Date.parse(timestamp) / 1000), [
    cpu.percent,
    cpu.load1,
    memory.used_bytes,
    disk.used_bytes,
    network?.rx_bps ?? null,
    network?.tx_bps ?? null,
  ]);
  last.current = {
    cpu: cpu.percent,
    cores: 'cores' in cpu ? cpu.cores : last.current?.cores,
    memory: memory.used_bytes,
    memoryTotal: memory.total_bytes,
    disk: disk.used_bytes,
    diskTotal: disk.total_bytes,
  };
}
