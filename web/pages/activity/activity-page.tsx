import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, list, page } from '../../api.ts';
import { allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import type { PageProps } from '../page.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Facts } from '../../parts/card.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Id } from '../../parts/id.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { exactTime } from '../../parts/relative-time.ts';
import type { Refusal } from '../../parts/refusal.ts';
import { refusalOf } from '../../parts/refusal.ts';
import { Shape } from '../../parts/shape.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { namedObjects, objectText, whatOf, whoOf } from './audit-text.ts';
import type { AuditEntry } from './audit-text.ts';

const pageSize = 100;
const mostUsers = 500;
const newestMs = 15_000;
const results = { ok: 'good', refused: 'warn', failed: 'bad' } as const;
const resultWords = { ok: 'done', refused: 'refused', failed: 'failed' } as const;
const spans = { '1h': 'An hour', '24h': 'A day', '7d': 'A week', '30d': 'A month' } as const;

/** Who did what, newest first, and whether the record is as it was written. */
export function ActivityPage({ query }: PageProps): VNode {
  const { login, router, me } = useConsole();
  const href = useHref();
  const projects = byName(useList(allProjects, 'project').objects);
  const isAdmin = me.value !== undefined && me.value.role !== 'user';
  const users = useRead(() => (isAdmin ? list(login, '/api/v1/users', mostUsers) : Promise.resolve([])), [isAdmin]);
  const values = Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
  const [entry, setEntry] = useState<AuditEntry>();
  const audit = useAudit(values);
  const projectId = values['projectId'];
  const whose = (users.data ?? []).map(({ id, email }) => ({ value: id, label: email }));
  return (
    <Page title="Activity" actions={isAdmin ? <Verification /> : undefined}>
      <Filters
        fields={[
          ...(isAdmin ? [{ name: 'user', label: 'Who', options: whose }] : []),
          {
            name: 'projectId',
            label: 'Project',
            options: projects.map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name })),
          },
          {
            name: 'result',
            label: 'Result',
            options: Object.entries(resultWords).map(([value, label]) => ({ value, label })),
          },
          { name: 'since', label: 'Since', options: Object.entries(spans).map(([value, label]) => ({ value, label })) },
        ]}
        values={values}
        onChange={(next) => router.replace(href(['activity'], next))}
      />
      {audit.error !== undefined && <ErrorBox error={audit.error} onRetry={audit.again} />}
      {audit.error !== undefined && !isAdmin && projectId === undefined && (
        <Notice shape="info">
          <p>Whoever administers a project sees its part: choose the project above.</p>
        </Notice>
      )}
      {audit.newer > 0 && (
        <span>
          <Button icon="refresh" onClick={audit.again}>
            {audit.newer >= pageSize ? `${pageSize} or more` : audit.newer} new
          </Button>
        </span>
      )}
      {audit.entries === undefined && audit.error === undefined && <Skeleton lines={8} label="Reading the activity" />}
      {audit.entries !== undefined && (
        <Table
          label="Activity"
          rows={audit.entries}
          keyOf={({ id }) => id}
          empty={
            <EmptyState title="Nothing was recorded" command="setpoint audit list">
              Every change is recorded here with who made it, from where, and what came of it
              {Object.keys(values).length > 0 ? '. Nothing fits these filters.' : '.'}
            </EmptyState>
          }
          columns={[
            {
              id: 'what',
              title: 'What',
              isPrimary: true,
              cell: (one) => (
                <button type="button" class="link-button audit-row" onClick={() => setEntry(one)}>
                  {whoOf(one)} {whatOf(one)} {namedObjects(one).slice(0, 2).map(objectText).join(', ')}
                  {namedObjects(one).length > 2 && ` and ${namedObjects(one).length - 2 + one.omitted} more`}
                </button>
              ),
            },
            {
              id: 'fields',
              title: 'Fields',
              cell: ({ objects }) => (
                <span class="small quiet">
                  {[...new Set(objects.flatMap(({ fields }) => fields))].slice(0, 6).join(', ')}
                </span>
              ),
            },
            {
              id: 'result',
              title: 'Result',
              isBare: true,
              cell: ({ result }) => (
                <span class="status">
                  <Shape of={results[result]} />
                  {resultWords[result]}
                </span>
              ),
            },
            { id: 'from', title: 'From', cell: ({ source }) => <code>{source ?? ''}</code> },
            { id: 'at', title: 'When', cell: ({ at }) => <Time at={at} /> },
          ]}
        />
      )}
      {audit.next !== null && audit.entries !== undefined && (
        <span>
          <Button busy={audit.isReading} onClick={audit.more}>
            Show older ones
          </Button>
        </span>
      )}
      {entry !== undefined && <EntryDrawer entry={entry} onClose={() => setEntry(undefined)} />}
    </Page>
  );
}

interface Audit {
  readonly entries: readonly AuditEntry[] | undefined;
  readonly next: string | null;
  readonly isReading: boolean;
  readonly error: Refusal | undefined;
  /** Records that came since; they wait behind a button, so that what is read does not move. */
  readonly newer: number;
  readonly more: () => void;
  readonly again: () => void;
}

function useAudit(values: Readonly<Record<string, string>>): Audit {
  const { login } = useConsole();
  const [entries, setEntries] = useState<readonly AuditEntry[]>();
  const [next, setNext] = useState<string | null>(null);
  const [isReading, setReading] = useState(false);
  const [error, setError] = useState<Refusal>();
  const [newer, setNewer] = useState(0);
  const [attempt, setAttempt] = useState(0);
  const filter = JSON.stringify(values);
  /** What is asked for now: the answer to an earlier question is dropped. */
  const asked = useRef('');
  asked.current = `${filter} ${attempt}`;
  const ask = (cursor?: string) =>
    page(login, '/api/v1/audit', {
      query: {
        limit: pageSize,
        ...(cursor !== undefined && { cursor }),
        ...(values['user'] !== undefined && { user: values['user'] }),
        ...(values['projectId'] !== undefined && { projectId: values['projectId'] }),
        ...(isResult(values['result']) && { result: values['result'] }),
        ...(values['since'] !== undefined && { since: values['since'] }),
      },
    });
  useEffect(() => {
    let isCurrent = true;
    setEntries(undefined);
    setError(undefined);
    setNewer(0);
    ask().then(
      ({ items, meta }) => {
        if (!isCurrent) return;
        setEntries(items);
        setNext(meta.next_cursor);
      },
      (failure: unknown) => {
        if (isCurrent) setError(refusalOf(failure));
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [filter, attempt]);
  const first = entries?.[0]?.id;
  // the audit log has no stream: its newest page is looked at while the tab is seen
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden || entries === undefined) return;
      ask().then(
        ({ items }) => {
          const at = items.findIndex(({ id }) => id === first);
          setNewer(at === -1 ? items.length : at);
        },
        () => undefined, // the connection shows whether the server answers
      );
    }, newestMs);
    return () => clearInterval(timer);
  }, [filter, first]);
  const more = (): void => {
    if (next === null || isReading) return;
    setReading(true);
    const question = asked.current;
    ask(next).then(
      ({ items, meta }) => {
        setReading(false);
        if (asked.current !== question) return;
        setEntries([...(entries ?? []), ...items]);
        setNext(meta.next_cursor);
      },
      (failure: unknown) => {
        setReading(false);
        setError(refusalOf(failure));
      },
    );
  };
  return { entries, next, isReading, error, newer, more, again: () => setAttempt(attempt + 1) };
}

function isResult(word: string | undefined): word is keyof typeof results {
  return word !== undefined && word in results;
}

/** Whether the chain of records is whole, by a click: it reads all of them. */
function Verification(): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [found, setFound] = useState<Awaited<ReturnType<typeof ask>>>();
  const ask = () => call(login, 'GET', '/api/v1/audit/verify');
  const verify = async (): Promise<void> => {
    await act.run(async () => setFound(await ask()));
  };
  return (
    <>
      <span class="status" role="status">
        {act.error !== undefined && (
          <>
            <Shape of="bad" />
            {act.error.message}
          </>
        )}
        {found !== undefined && (
          <>
            <Shape of={found.ok ? 'good' : 'bad'} />
            {found.ok
              ? `All ${found.count.toLocaleString()} records are as they were written`
              : `Record ${found.broken?.seq ?? '?'} is not as it was written: ${found.broken?.reason ?? ''}`}
          </>
        )}
      </span>
      <Button busy={act.busy} onClick={() => void verify()}>
        Verify
      </Button>
    </>
  );
}

function EntryDrawer({ entry, onClose }: { readonly entry: AuditEntry; readonly onClose: () => void }): VNode {
  return (
    <Drawer title="What was recorded" onClose={onClose}>
      <Facts
        of={[
          ['Who', whoOf(entry)],
          ['Did', `${whatOf(entry)} ${entry.objects.map(objectText).join(', ')}`],
          ['When', exactTime(entry.at)],
          ['Result', resultWords[entry.result]],
          ['Role', entry.role],
          ['From', entry.source],
          ['Route', <code>{entry.route}</code>],
          ['Request', entry.request_id === null ? undefined : <Id of={entry.request_id} what="request id" />],
          ['Record', entry.seq === null ? 'is being chained' : `${entry.seq}`],
          ['Hash', entry.hash === null ? undefined : <code>{entry.hash}</code>],
        ]}
      />
      {entry.objects.map(({ kind, id, name, action, fields }) => (
        <div key={`${kind} ${id}`} class="stack-tight">
          <h3>
            {kind.replaceAll('_', ' ')} {name ?? ''}
          </h3>
          <Facts
            of={[
              ['Id', <Id of={id} />],
              ['Action', action],
              ['Fields', fields.join(', ')],
            ]}
          />
        </div>
      ))}
      <details class="details">
        <summary>The raw record</summary>
        <pre class="raw">{JSON.stringify(entry, undefined, 2)}</pre>
      </details>
    </Drawer>
  );
}
