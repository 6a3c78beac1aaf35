import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { followStream } from '../../frame/stream.ts';
import type { Frame } from '../../frame/stream.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Server } from '../../model.ts';
import { LogRing } from '../../parts/log-ring.ts';
import type { LogLevel, LogLine, NewLine } from '../../parts/log-ring.ts';
import { LogView } from '../../parts/log-view.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { bytesText } from '../../parts/units.ts';

interface LineFrame extends Frame {
  readonly message: string;
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly seq: number;
  readonly source: { readonly kind: string; readonly id: string; readonly name?: string | null };
}

const storedLines = 1000;
const levels = ['debug', 'info', 'warn', 'error'] as const;

/** Lines of the agent and of all workloads of a server, as they arrive, and what they take on its disk. */
export function ServerLogs({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const [level, setLevel] = useState('');
  const [source, setSource] = useState('');
  const [trouble, setTrouble] = useState<string>();
  const [isAway, setAway] = useState(false);
  const ring = useMemo(() => new LogRing(), []);
  useEffect(() => {
    ring.clear();
    return followStream({
      login,
      path: `/ws/servers/${server.id}/logs`,
      query: {
        tail: String(storedLines),
        ...(level !== '' && { level: levels.slice(levels.findIndex((one) => one === level)).join(',') }),
        ...(source !== '' && { source }),
      },
      onTrouble: setTrouble,
      onFrame: (frame) => {
        if (frame.type === 'log') ring.push([lineOf(frame as LineFrame)]); // the type says so
        else if (frame.type === 'gap') ring.push([gap]);
        else if (frame.type === 'source') setAway('state' in frame && frame.state === 'away');
      },
    });
  }, [server.id, level, source]);
  return (
    <div class="stack">
      <LogView
        label={`Logs of ${server.name}`}
        ring={ring}
        fileName={`${server.name}.log`}
        empty={trouble === undefined ? 'No line yet: lines appear here as they are written.' : `No line: ${trouble}`}
        notice={
          trouble !== undefined || isAway ? (
            <Notice shape="warn">
              <p>{isAway ? 'Its agent is away: lines follow when it is back' : `Not live: ${trouble ?? ''}`}</p>
            </Notice>
          ) : undefined
        }
        tools={
          <>
            <select
              class="input input-narrow"
              aria-label="Least level"
              value={level}
              onChange={({ currentTarget }) => setLevel(currentTarget.value)}
            >
              <option value="">All levels</option>
              {levels.slice(1).map((one) => (
                <option key={one} value={one}>
                  {one} and worse
                </option>
              ))}
            </select>
            <select
              class="input input-narrow"
              aria-label="Source"
              value={source}
              onChange={({ currentTarget }) => setSource(currentTarget.value)}
            >
              <option value="">All sources</option>
              <option value="agent">The agent</option>
            </select>
          </>
        }
      />
      <Storage server={server} />
    </div>
  );
}

const gap: LogLine = {
  text: 'lines are missing here: they came faster than they were read, or are no longer kept',
  at: 0,
  level: 'warn',
  source: '',
  seq: -1,
  mark: 'gap',
};

function lineOf({ message, timestamp, level, seq, source }: LineFrame): NewLine {
  return {
    text: message,
    at: Date.parse(timestamp),
    level,
    seq,
    source: source.name ?? source.kind,
    sourceId: source.id,
    mark: 'line',
  };
}

function Storage({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const storage = useRead(
    () => call(login, 'GET', '/api/v1/servers/{id}/logs/storage', { path: { id: server.id } }),
    [server.id, server.agent_status],
  );
  const it = storage.data;
  return (
    <Card title="What logs take on its disk">
      {storage.error !== undefined && <ErrorBox error={storage.error} onRetry={storage.again} />}
      {it !== undefined && (
        <>
          <p>
            {bytesText(it.total_bytes)}
            {it.max_bytes !== null && ` of at most ${bytesText(it.max_bytes)}`}, kept for {it.retention_days} d
            {it.oldest_at !== null && (
              <>
                ; the oldest line is of <Time at={it.oldest_at} />
              </>
            )}
            .
          </p>
          <Table
            label="What wrote the lines"
            rows={it.workloads}
            keyOf={({ kind, id }) => `${kind} ${id}`}
            empty={<p class="quiet">Nothing has written a line.</p>}
            columns={[
              {
                id: 'name',
                title: 'Source',
                isPrimary: true,
                cell: ({ kind, name }) => name ?? (kind === 'agent' ? 'The agent' : `${kind}, gone`),
                sortBy: ({ name }) => name ?? '',
              },
              { id: 'kind', title: 'Kind', cell: ({ kind }) => kind },
              {
                id: 'lines',
                title: 'Lines',
                isNumber: true,
                cell: ({ lines }) => lines.toLocaleString(),
                sortBy: ({ lines }) => lines,
              },
              {
                id: 'bytes',
                title: 'Size',
                isNumber: true,
                cell: ({ bytes }) => bytesText(bytes),
                sortBy: ({ bytes }) => bytes,
              },
            ]}
          />
        </>
      )}
    </Card>
  );
}
