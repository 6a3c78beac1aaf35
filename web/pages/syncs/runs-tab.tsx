import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { syncVerbs } from '#rules/sync.ts';
import { whyNot } from '#rules/verb-table.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { StatusWord } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { countText } from '../template/counts.ts';
import { Commit } from './commit.tsx';
import { RollbackSync } from './rollback-sync.tsx';
import { RunSteps } from './run-steps.tsx';
import { followedBy, formerCommits, outcomeLooks } from './sync-words.ts';
import type { TabProps } from './tab-props.ts';

/** What became of the last commits, each with its plan. */
export function RunsTab({ it, runs, below }: TabProps): VNode {
  const [goesBackTo, setGoesBackTo] = useState<string>();
  const former = below === undefined ? formerCommits(it, runs.data ?? []) : [];
  return (
    <Card title="Its last commits">
      {runs.error !== undefined && <ErrorBox error={runs.error} onRetry={runs.again} />}
      {runs.data === undefined && runs.error === undefined && <Skeleton label="Reading its runs" />}
      {runs.data?.length === 0 && (
        <p class="quiet">
          None yet: the first commit of {followedBy(it)} that is read, planned and applied is shown here, and then the
          last 20.
        </p>
      )}
      {runs.data !== undefined && runs.data.length > 0 && (
        <ol class="plan" aria-label="Runs">
          {runs.data.map((run) => (
            <li key={`${run.at} ${run.commit} ${run.outcome}`} class="plan-step">
              <div class="row">
                <StatusWord look={outcomeLooks[run.outcome]} />
                <Commit of={run.commit} tag={run.tag} />
                <span class="grow">{run.commit_message}</span>
                <span class="quiet small">
                  <Time at={run.at} />
                </span>
                {former.includes(run) && (
                  <Button isSmall why={whyNot(syncVerbs, 'rollback', it)} onClick={() => setGoesBackTo(run.commit)}>
                    Roll back to it
                  </Button>
                )}
              </div>
              {run.message !== null && <p class="small">{run.message}</p>}
              {run.changes > 0 && (
                <details class="details">
                  <summary>{countText(run.changes, 'step')}</summary>
                  <RunSteps of={run.steps} changes={run.changes} />
                </details>
              )}
            </li>
          ))}
        </ol>
      )}
      {goesBackTo !== undefined && (
        <RollbackSync it={it} commit={goesBackTo} onClose={() => setGoesBackTo(undefined)} />
      )}
    </Card>
  );
}
