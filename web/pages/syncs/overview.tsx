import type { VNode } from 'preact';
import { list } from '../../api.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { gitWebhooksOf } from '../../frame/collections.ts';
import { useRead } from '../../frame/use-read.ts';
import { byName } from '../../model.ts';
import { Badge, Card, Facts } from '../../parts/card.tsx';
import { Command } from '../../parts/command.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { Id } from '../../parts/id.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { lookOf } from '../../parts/status-words.ts';
import { Time } from '../../parts/time.tsx';
import { durationValue } from '../../parts/units.ts';
import { actionLookOf, differences, followedBy, providerOf } from './sync-words.ts';
import type { Sync, SyncRun } from './sync-words.ts';
import type { TabProps } from './tab-props.ts';

/** Where a sync is: the commit that is wanted and the one that is applied, and what keeps them apart. */
export function Overview({ it, runs }: TabProps): VNode {
  return (
    <>
      {it.message !== null && it.status !== 'in_sync' && (
        <Notice shape={lookOf('sync', it).shape}>
          <p>{it.message}</p>
        </Notice>
      )}
      <div class="columns">
        <Commits it={it} runs={runs.data ?? []} />
        <Settings it={it} />
      </div>
      <Differences it={it} runs={runs.data ?? []} />
      <div class="columns">
        <Webhooks it={it} />
        <Card title="Conditions">
          <Conditions of={it.conditions} />
        </Card>
      </div>
    </>
  );
}

interface WithRuns {
  readonly it: Sync;
  readonly runs: readonly SyncRun[];
}

function Commits({ it, runs }: WithRuns): VNode {
  const { commit_wanted: wanted, commit_applied: applied, pinned_commit: pinned } = it;
  const commitFacts = (commit: string | null, tag: string | null, none: string): VNode => {
    const run = commit === null ? undefined : runs.find((one) => one.commit === commit);
    if (commit === null) return <span class="quiet">{none}</span>;
    return (
      <>
        {tag !== null && <code>{tag}</code>} <Id of={commit} what="commit" /> {run?.commit_message}
        {run !== undefined && (
          <span class="quiet small">
            {' '}
            <Time at={run.at} />
          </span>
        )}
      </>
    );
  };
  return (
    <Card title="Wanted and applied">
      <Facts
        of={[
          [
            'Wanted',
            commitFacts(
              wanted,
              it.tag_wanted,
              `The ${it.branch === null ? 'newest' : 'head'} of ${followedBy(it)} is not known yet`,
            ),
          ],
          ['Applied', commitFacts(applied, it.tag_applied, 'None is applied as a whole')],
        ]}
      />
      {pinned !== null && (
        <>
          <p>It is pinned to the wanted commit: later commits are not applied until it is released.</p>
          <Command text={`setpoint sync release ${shellQuoted(it.name)}`} />
        </>
      )}
      {wanted !== null && pinned === null && (
        <p class="quiet">
          {it.branch === null ? 'The newest tag' : 'The head of the branch'}{' '}
          {wanted === applied ? 'is applied.' : 'is not applied yet.'}
        </p>
      )}
    </Card>
  );
}

function Settings({ it }: { readonly it: Sync }): VNode {
  const { login, store, me } = useConsole();
  const href = useHref();
  const project = store.get('project', it.project_id);
  const environment = it.environment_id === null ? undefined : store.get('environment', it.environment_id);
  const server = store.get('server', it.server_id);
  const isOwn = me.value?.id === it.requested_by;
  const members = useRead(
    () => list(login, '/api/v1/projects/{id}/members', 500, { path: { id: it.project_id } }),
    [it.project_id],
  ).data;
  return (
    <Card title="At a glance">
      <Facts
        of={[
          ['Repository', <code key="repository">{it.repository_url}</code>],
          it.branch === null
            ? ['Tags', <code key="tags">{it.tag_pattern}</code>]
            : ['Branch', <code key="branch">{it.branch}</code>],
          ['Path', it.path === '.' ? 'all of it' : <code key="path">{it.path}</code>],
          [
            'Project',
            project === undefined ? undefined : (
              <a href={href(['projects', project.id])}>{project.display_name ?? project.name}</a>
            ),
          ],
          [
            'Environment',
            environment === undefined ? (
              it.environment_id === null && 'the default one'
            ) : (
              <a href={href(['projects', it.project_id, environment.name])}>{environment.name}</a>
            ),
          ],
          [
            'Read by',
            server === undefined ? undefined : (
              <>
                the agent of <a href={href(['servers', server.id])}>{server.name}</a>
              </>
            ),
          ],
          ['Looks every', durationValue(it.interval_seconds)],
          ['Not declared any more', it.prune ? 'is deleted' : 'stays'],
          ['Changed by hand', it.drift === 'correct' ? 'is changed back' : 'is shown'],
          ['Has the rights of', isOwn ? 'you' : members?.find(({ user_id: user }) => user === it.requested_by)?.email],
        ]}
      />
    </Card>
  );
}

function Differences({ it, runs }: WithRuns): VNode {
  const all = differences(it, runs);
  return (
    <Card title="What differs">
      {all.length === 0 ? (
        <p class="quiet">
          {it.status === 'in_sync'
            ? 'Nothing: all is as the commit declares it.'
            : it.commit_wanted === null
              ? 'That is known once its repository was read.'
              : 'Nothing is known to differ.'}
        </p>
      ) : (
        <ul class="stack-tight" aria-label="Objects that differ">
          {all.map(({ key, step, needsForce }) => {
            const look = step === undefined ? undefined : actionLookOf(step.action);
            return (
              <li key={key} class="row">
                <Badge tone={look?.tone ?? 'warn'}>{look?.word ?? 'differs'}</Badge>
                <code>{key}</code>
                {step !== undefined && step.fields.length > 0 && (
                  <span class="quiet small">{step.fields.join(', ')}</span>
                )}
                {needsForce && <Badge tone="bad">has to be forced</Badge>}
              </li>
            );
          })}
        </ul>
      )}
    </Card>
  );
}

/** What makes it look at once. */
function Webhooks({ it }: { readonly it: Sync }): VNode {
  const { store } = useConsole();
  const project = store.get('project', it.project_id);
  const own = byName(
    useList(gitWebhooksOf(it.project_id), 'git_webhook').objects.filter((one) => one.project_id === it.project_id),
  );
  return (
    <Card title="Webhook">
      <p>
        A webhook of the project for the same repository makes it look at once after a push; without one it looks every{' '}
        {durationValue(it.interval_seconds)}.
      </p>
      {own.length > 0 && (
        <ul class="stack-tight" aria-label="Webhooks of the project">
          {own.map(({ id, name, provider, repository_url: url }) => (
            <li key={id} class="row">
              <span class="strong">{name}</span>
              <span class="quiet">{provider}</span>
              <code>{url}</code>
            </li>
          ))}
        </ul>
      )}
      {!own.some(({ repository_url: url }) => url === it.repository_url) && (
        <Command
          text={`setpoint create git-webhook ${shellQuoted(it.name)} --project ${shellQuoted(project?.name ?? 'PROJECT')} --provider ${providerOf(it.repository_url)} --repository ${shellQuoted(it.repository_url)}`}
        />
      )}
    </Card>
  );
}
