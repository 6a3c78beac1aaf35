import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { labelOfFunctionVerb } from '../../frame/function-verbs.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Notice } from '../../parts/notice.tsx';
import { durationText } from '../../parts/relative-time.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { lookOfStatus, statusesOf } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import type { Execution, Fn, TabProps } from './tab-props.ts';

const pageSize = 50;
const triggers = { http: 'a request', cron: 'its schedule', manual: 'a user' } as const;

/** The calls of a function, as its server has recorded them. */
export function ExecutionsTab({ it, query }: TabProps): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const parts = useFunctionParts();
  const more = useAct();
  const status = query.get('status') ?? '';
  const [older, setOlder] = useState<readonly Execution[]>([]);
  const [hasMore, setHasMore] = useState(true);
  const [shown, setShown] = useState<Execution>();
  const ask = (cursor?: string): Promise<Execution[]> =>
    call(login, 'GET', '/api/v1/functions/{id}/executions', {
      path: { id: it.id },
      query: { limit: pageSize, ...(status !== '' && { status }), ...(cursor !== undefined && { cursor }) },
    });
  // while older ones are shown, the list stands still until it is read again: nothing is missing within it
  const live = useRef('');
  if (older.length === 0) live.current = `${it.last_run_at} ${it.status}`;
  const read = useRead(() => ask(), [it.id, status, live.current]);
  const begin = (): void => {
    setOlder([]);
    setHasMore(true);
  };
  useEffect(begin, [it.id, status]);
  const newest = read.data ?? [];
  const rows = [...newest, ...older];
  const last = rows.at(-1);
  const readMore = async (): Promise<void> => {
    if (last === undefined) return;
    await more.run(async () => {
      const next = await ask(last.id);
      // it may have begun anew meanwhile
      setOlder((now) => (now === older ? [...older, ...next] : now));
      setHasMore(next.length === pageSize);
    });
  };
  return (
    <Card
      title="Executions"
      actions={
        <Button
          icon="refresh"
          onClick={() => {
            begin();
            read.again();
          }}
        >
          Read again
        </Button>
      }
    >
      <Filters
        fields={[
          {
            name: 'status',
            label: 'Status',
            options: statusesOf('execution').map((one) => ({ value: one, label: lookOfStatus('execution', one).word })),
          },
        ]}
        values={status === '' ? {} : { status }}
        onChange={(next) => router.replace(href(parts(it, 'executions'), next))}
      />
      {read.error !== undefined && <ErrorBox error={read.error} onRetry={read.again} />}
      {read.data === undefined && read.error === undefined && <Skeleton label="Reading executions" />}
      {read.data !== undefined && rows.length === 0 && <Nothing it={it} isFiltered={status !== ''} />}
      {rows.length > 0 && <Rows rows={rows} onShow={setShown} />}
      {more.error !== undefined && <ErrorBox error={more.error} />}
      {newest.length === pageSize && hasMore && (
        <div>
          <Button busy={more.busy} onClick={() => void readMore()}>
            Older ones
          </Button>
        </div>
      )}
      <p class="quiet small">Its server keeps the last 1,000 of the last 7 days.</p>
      {shown !== undefined && <Details of={shown} onClose={() => setShown(undefined)} />}
    </Card>
  );
}

function Nothing({ it, isFiltered }: { readonly it: Fn; readonly isFiltered: boolean }): VNode {
  const href = useHref();
  const parts = useFunctionParts();
  if (isFiltered)
    return (
      <Notice shape="info">
        <p>
          None of its calls is like this. <a href={href(parts(it, 'executions'))}>Clear filters</a>
        </p>
      </Notice>
    );
  return (
    <EmptyState
      title="Nothing has called it yet"
      action={<LinkButton href={href(parts(it, 'try'))}>{labelOfFunctionVerb('invoke')} it</LinkButton>}
      command={`setpoint fn invoke ${shellQuoted(it.name)}`}
    >
      Each call of a function is recorded on its server: what called it, what it answered, how long that took, and what
      it wrote.
    </EmptyState>
  );
}

interface RowsProps {
  readonly rows: readonly Execution[];
  readonly onShow: (one: Execution) => void;
}

function Rows({ rows, onShow }: RowsProps): VNode {
  return (
    <Table
      label="Executions"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        {
          id: 'status',
          title: 'Status',
          isPrimary: true,
          cell: (one) => <Status kind="execution" object={{ ...one }} />,
        },
        { id: 'by', title: 'Called by', cell: ({ trigger }) => triggers[trigger] },
        {
          id: 'what',
          title: 'What',
          cell: ({ http }) =>
            http === null ? (
              ''
            ) : (
              <>
                <code>
                  {http.method} {http.path}
                </code>{' '}
                {http.status_code !== null && <span class="numeric">{http.status_code}</span>}
              </>
            ),
        },
        {
          id: 'error',
          title: 'Error',
          cell: ({ error }) => error !== null && <span class="tone-bad">{error.message}</span>,
        },
        {
          id: 'took',
          title: 'Took',
          isNumber: true,
          cell: ({ duration_ms: ms, cold_start: wasCold }) =>
            ms === null ? '' : `${durationText(ms)}${wasCold ? ', cold' : ''}`,
        },
        {
          id: 'when',
          title: 'When',
          cell: ({ started_at: at }) => <Time at={at} />,
        },
        {
          id: 'more',
          title: 'More',
          isNarrow: true,
          cell: (one) => (
            <Button isSmall onClick={() => onShow(one)}>
              Details
            </Button>
          ),
        },
      ]}
    />
  );
}

function Details({ of: one, onClose }: { readonly of: Execution; readonly onClose: () => void }): VNode {
  const { http, error, cold_start: wasCold, cold_start_ms: coldMs, log_preview: preview } = one;
  return (
    <Drawer title="Execution" onClose={onClose}>
      <Facts
        of={[
          ['Status', <Status key="status" kind="execution" object={{ ...one }} />],
          ['Called by', triggers[one.trigger]],
          ['For', one.scheduled_at === null ? undefined : <Time key="for" at={one.scheduled_at} />],
          [
            'Request',
            http === null ? undefined : (
              <code key="request">
                {http.method} {http.path}
              </code>
            ),
          ],
          ['Answer', http?.status_code === null || http === null ? undefined : String(http.status_code)],
          ['Began', <Time key="began" at={one.started_at} />],
          ['Took', one.duration_ms === null ? undefined : durationText(one.duration_ms)],
          [
            'Cold start',
            wasCold ? `an instance was started${coldMs === null ? '' : ` in ${durationText(coldMs)}`}` : 'no',
          ],
          ['Id', <code key="id">{one.id}</code>],
        ]}
      />
      {error !== null && (
        <Notice shape="bad">
          <p>{error.message}</p>
          <p class="small">
            <code>{error.code}</code>
          </p>
        </Notice>
      )}
      <section class="stack-tight" aria-label="What it wrote">
        <h3>What it wrote</h3>
        {preview === null || preview === '' ? (
          <p class="quiet">Nothing.</p>
        ) : (
          <pre class="output" tabIndex={0}>
            {preview}
          </pre>
        )}
      </section>
    </Drawer>
  );
}
