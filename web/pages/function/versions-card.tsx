import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyNotFunctionVerb, labelOfFunctionVerb } from '../../frame/function-verbs.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Menu } from '../../parts/menu.tsx';
import { durationText } from '../../parts/relative-time.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import type { Fn, FnVersion } from './tab-props.ts';

const mostVersions = 20;

/** What was built of a function; an earlier version can serve again without a build. */
export function VersionsCard({ it }: { readonly it: Fn }): VNode {
  const { login, store } = useConsole();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [shown, setShown] = useState<FnVersion>();
  const observed = JSON.stringify([it.status, it.active_version_id, it.conditions]);
  const read = useRead(
    () => list(login, '/api/v1/functions/{id}/versions', mostVersions, { path: { id: it.id } }),
    [it.id, it.resource_version, observed],
  );
  const versions = (read.data ?? []).toSorted((a, b) => b.number - a.number);
  const serve = (one: FnVersion): Promise<boolean> =>
    act.run(() =>
      store.answer('function', () =>
        call(login, 'POST', '/api/v1/functions/{id}/versions/{versionId}/deploy', {
          path: { id: it.id, versionId: one.id },
        }),
      ),
    );
  const whyNot = (one: FnVersion): string | undefined =>
    whyNotFunctionVerb('deploy_version', it, rank) ??
    (one.is_active && it.version_id === one.id && it.run === 'running'
      ? 'It serves already'
      : one.status === 'ready'
        ? undefined
        : one.status === 'building'
          ? 'It is being built: it serves by itself once it is'
          : 'Only a version that was built can serve');
  return (
    <Card title="Versions">
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {read.error !== undefined && <ErrorBox error={read.error} onRetry={read.again} />}
      {read.data === undefined && read.error === undefined && <Skeleton lines={3} label="Reading versions" />}
      <Table
        label="Versions"
        rows={versions}
        keyOf={({ id }) => id}
        columns={[
          { id: 'number', title: 'Version', isPrimary: true, cell: ({ number }) => `#${number}` },
          {
            id: 'status',
            title: 'Status',
            isBare: true,
            cell: (one) => <Status kind="function_version" object={{ ...one }} />,
          },
          {
            id: 'what',
            title: 'What',
            cell: (one) => (one.error === null ? '' : <span class="tone-bad">{one.error.message}</span>),
          },
          {
            id: 'took',
            title: 'Took',
            cell: ({ duration_ms: ms }) => (ms === null ? '' : durationText(ms)),
          },
          { id: 'when', title: 'When', cell: ({ requested_at: at }) => <Time at={at} /> },
          {
            id: 'more',
            title: 'More',
            isNarrow: true,
            cell: (one) => (
              <Menu
                label={`Actions of version ${one.number}`}
                icon="more"
                tone="plain"
                entries={[
                  { label: 'Log of its build', onSelect: () => setShown(one) },
                  { label: labelOfFunctionVerb('deploy_version'), why: whyNot(one), onSelect: () => void serve(one) },
                ]}
              />
            ),
          },
        ]}
      />
      {shown !== undefined && <BuildLog it={it} version={shown} onClose={() => setShown(undefined)} />}
    </Card>
  );
}

const shownLines = 1000;

interface BuildLogProps {
  readonly it: Fn;
  readonly version: FnVersion;
  readonly onClose: () => void;
}

/** How a version was built, as its server wrote it. */
function BuildLog({ it, version, onClose }: BuildLogProps): VNode {
  const { login } = useConsole();
  const read = useRead(
    () =>
      call(login, 'GET', '/api/v1/functions/{id}/versions/{versionId}/logs', {
        path: { id: it.id, versionId: version.id },
        query: { tail: shownLines },
      }),
    [version.id, it.status],
  );
  return (
    <Drawer
      title={`Build of version ${version.number}`}
      onClose={onClose}
      foot={<Button onClick={read.again}>Read again</Button>}
    >
      {version.error !== null && <ErrorBox error={{ message: version.error.message }} />}
      {read.error !== undefined && <ErrorBox error={read.error} onRetry={read.again} />}
      {read.data === undefined && read.error === undefined && <Skeleton lines={4} label="Reading the log" />}
      {read.data !== undefined &&
        (read.data.lines.length === 0 ? (
          <p class="quiet">Nothing of its build is kept.</p>
        ) : (
          <pre class="output" tabIndex={0} aria-label={`Log of version ${version.number}`}>
            {read.data.lines.map(({ message }) => message).join('\n')}
          </pre>
        ))}
    </Drawer>
  );
}
