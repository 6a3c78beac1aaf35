import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { deploymentVerbs } from '#rules/deployment.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call, page } from '../../api.ts';
import { deploymentsOf, newestDeployments } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Deployment } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Duration } from '../../parts/duration.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Menu } from '../../parts/menu.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import type { TabProps } from './tab-props.ts';
import { useDeployments } from './deployments.ts';
import { RollBack } from './roll-back.tsx';

const pageSize = 100;

/** The deployments of an application, the newest at first; each has a page with its log. */
export function DeploymentsTab({ it }: TabProps): VNode {
  const { login, store, collections } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [target, setTarget] = useState<Deployment>();
  const collection = deploymentsOf(it.id);
  const { reading } = useList(collection, 'deployment');
  const more = useAct();
  const [older, setOlder] = useState<readonly Deployment[]>([]);
  const [next, setNext] = useState<string | null>();
  const newest = useDeployments(it);
  // more of them were made since than the console keeps: what is between is asked for anew
  const isCut = (newest.at(-1)?.number ?? 0) > (older[0]?.number ?? Infinity) + 1;
  const further = isCut ? [] : older;
  const known = new Set(newest.map(({ id }) => id));
  const all = [...newest, ...further.filter(({ id }) => !known.has(id))];
  const readMore = (): Promise<boolean> =>
    more.run(async () => {
      const query = {
        sort: '-number',
        limit: pageSize,
        ...(typeof next === 'string' && !isCut && { cursor: next }),
      } as const;
      const found = await page(login, '/api/v1/applications/{appId}/deployments', { path: { appId: it.id }, query });
      setOlder([...further, ...found.items]);
      setNext(found.meta.next_cursor);
    });
  const cancel = (one: Deployment): Promise<boolean> =>
    act.run(() =>
      store.answer('deployment', () =>
        call(login, 'POST', '/api/v1/deployments/{id}/cancel', { path: { id: one.id } }),
      ),
    );
  if (reading.state === 'failed')
    return <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(collection)} />;
  if (reading.state === 'reading' && all.length === 0) return <Skeleton label="Reading deployments" />;
  if (all.length === 0)
    return (
      <EmptyState title="It was never deployed" command={`setpoint deploy ${shellQuoted(it.name)}`}>
        A deployment builds or pulls the image of the application, starts new instances and leads requests to them once
        they are ready.
      </EmptyState>
    );
  return (
    <>
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Table
        label="Deployments"
        rows={all}
        keyOf={({ id }) => id}
        empty=""
        hrefOf={(one) => href(parts(it, 'deployments', one.id))}
        columns={[
          {
            id: 'number',
            title: 'Deployment',
            isPrimary: true,
            cell: (one) => (
              <a href={href(parts(it, 'deployments', one.id))} aria-label={`Deployment ${one.number}`}>
                #{one.number}
              </a>
            ),
          },
          {
            id: 'status',
            title: 'Status',
            cell: (one) => (
              <Status kind="deployment" object={{ ...one, serving: one.id === it.current_deployment_id }} />
            ),
          },
          { id: 'what', title: 'What', cell: (one) => <What of={one} /> },
          { id: 'why', title: 'Why', cell: (one) => one.trigger },
          {
            id: 'took',
            title: 'Took',
            cell: (one) => one.started_at !== null && <Duration from={one.started_at} to={one.finished_at} />,
          },
          { id: 'when', title: 'When', cell: (one) => <Time at={one.queued_at} /> },
          {
            id: 'more',
            title: 'More',
            cell: (one) => (
              <Menu
                label={`Actions of deployment ${one.number}`}
                icon="more"
                tone="plain"
                entries={[
                  {
                    label: 'Roll back to this',
                    why:
                      whyBelow(rank, 'member') ??
                      (one.id === it.current_deployment_id
                        ? 'It serves already'
                        : one.status === 'succeeded'
                          ? undefined
                          : 'Only a deployment that succeeded can be gone back to'),
                    onSelect: () => setTarget(one),
                  },
                  {
                    label: deploymentVerbs.verbs.cancel.label,
                    why: whyNot(deploymentVerbs, 'cancel', one) ?? whyBelow(rank, 'member'),
                    onSelect: () => void cancel(one),
                  },
                ]}
              />
            ),
          },
        ]}
      />
      {more.error !== undefined && <ErrorBox error={more.error} />}
      {(isCut || next !== null) && newest.length >= newestDeployments && (
        <div>
          <Button busy={more.busy} onClick={() => void readMore()}>
            Older ones
          </Button>
        </div>
      )}
      {target !== undefined && <RollBack it={it} to={target} onClose={() => setTarget(undefined)} />}
    </>
  );
}

function What({ of }: { of: Deployment }): VNode {
  if (of.error !== null) return <span class="tone-bad">{of.error.message}</span>;
  return (
    <span>
      {of.commit !== null && <code>{of.commit.slice(0, 8)}</code>}{' '}
      {of.commit_message ?? (of.commit === null ? of.image : '')}
    </span>
  );
}
