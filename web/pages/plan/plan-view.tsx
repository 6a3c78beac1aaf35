import type { VNode } from 'preact';
import { Badge } from '../../parts/card.tsx';
import { FieldDiff } from '../../parts/field-diff.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { countText } from '../template/counts.ts';
import { changesOfStep, countsText, inOrder, lookOfStep, whyForced } from './plan-words.ts';
import type { Plan, PlannedStep } from './plan-words.ts';

interface PlanViewProps {
  readonly plan: Plan;
  /** Keys of the steps that may lose data, or overwrite what others have set. */
  readonly forced: ReadonlySet<string>;
  readonly onForce: (forced: ReadonlySet<string>) => void;
}

/** What a change would do, object by object and field by field. What loses something is decided step by step. */
export function PlanView({ plan, forced, onForce }: PlanViewProps): VNode {
  const { changing, unchanged } = inOrder(plan.steps);
  const force = (key: string, isForced: boolean): void => {
    const next = new Set(forced);
    if (isForced) next.add(key);
    else next.delete(key);
    onForce(next);
  };
  return (
    <section class="stack" aria-label="Plan">
      <Notice shape={!plan.changes ? 'good' : plan.needs_force.length > 0 ? 'warn' : 'info'}>
        <p>
          {plan.changes
            ? `Nothing is changed yet. It would be: ${countsText(plan.steps)}.`
            : 'Nothing would change: all of it is so already.'}
        </p>
      </Notice>
      {changing.length > 0 && (
        <ol class="plan" aria-label="Steps of the plan">
          {changing.map((step) => (
            <Step
              key={step.key}
              step={step}
              needsForce={plan.needs_force.includes(step.key)}
              isForced={forced.has(step.key)}
              onForce={(isForced) => force(step.key, isForced)}
            />
          ))}
        </ol>
      )}
      {unchanged.length > 0 && (
        <details class="details">
          <summary>{countText(unchanged.length, 'object')} unchanged</summary>
          <ul class="stack-tight">
            {unchanged.map(({ key, kind, name }) => (
              <li key={key}>
                {kind} <span class="strong">{name}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

interface StepProps {
  readonly step: PlannedStep;
  readonly needsForce: boolean;
  readonly isForced: boolean;
  readonly onForce: (isForced: boolean) => void;
}

function Step({ step, needsForce, isForced, onForce }: StepProps): VNode {
  const {
    kind,
    key,
    name,
    renamed_from: before,
    fields,
    interrupts,
    loses_data: lost,
    waits_for: waits,
    action,
  } = step;
  const { word, tone } = lookOfStep(step);
  const foreign = fields.filter(({ by_hand: byHand }) => byHand);
  const why = whyForced(step);
  const labels = action === 'create' ? { before: 'Now', after: 'Then' } : { before: 'Is', after: 'Becomes' };
  return (
    <li class="plan-step">
      <div class="row">
        <Badge tone={tone}>{word}</Badge>
        <h3>
          {kind} {before !== null && `${before} → `}
          {name}
        </h3>
        <code class="quiet">{key}</code>
      </div>
      {fields.length > 0 && (
        <FieldDiff
          changes={changesOfStep(fields)}
          labels={labels}
          setBy={foreign.length === 0 ? undefined : Object.fromEntries(foreign.map(({ field }) => [field, 'by hand']))}
        />
      )}
      {interrupts !== null && (
        <p class="small">
          <span class="strong">Interrupts:</span> {interrupts}
        </p>
      )}
      {waits !== null && (
        <p class="small">
          <span class="strong">Waits for:</span> {waits}
        </p>
      )}
      {why !== undefined && (needsForce || lost !== null) && (
        <Notice shape="bad">
          <p>{why}</p>
          {needsForce && (
            <Checkbox checked={isForced} onChange={onForce}>
              {lost === null ? `Overwrite that of ${name}` : `Lose that data of ${name}`}
            </Checkbox>
          )}
        </Notice>
      )}
    </li>
  );
}
