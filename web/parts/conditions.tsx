import type { ComponentChildren, VNode } from 'preact';
import { labelOf } from './schema-fields.ts';
import { Shape } from './shape.tsx';
import type { Shape as ShapeName } from './status-words.ts';
import { Time } from './time.tsx';

export interface ConditionView {
  readonly type: string;
  readonly status: 'true' | 'false' | 'unknown';
  readonly reason: string;
  readonly message: string;
  readonly last_transition_at: string;
}

interface ConditionsProps {
  readonly of: readonly ConditionView[];
  /** What can be done about a condition. */
  readonly remedyOf?: ((condition: ConditionView) => ComponentChildren) | undefined;
}

/** Conditions that are bad where they are true. */
const badWhenTrue = new Set(['Stalled', 'DataLost', 'Degraded']);
/** Conditions that say what is being done. */
const progress = new Set(['Reconciling', 'Restoring', 'Cloning', 'Deleting']);

function shapeOf({ type, status, reason }: ConditionView): ShapeName {
  if (status === 'unknown') return 'waiting';
  if (progress.has(type)) return status === 'true' ? 'busy' : 'good';
  if (badWhenTrue.has(type)) return status === 'true' ? 'bad' : 'good';
  if (status === 'true') return 'good';
  return reason === 'Stopped' ? 'idle' : 'warn';
}

/** Whether a condition says no more than that all is well. */
function isQuiet(condition: ConditionView): boolean {
  return shapeOf(condition) === 'good';
}

/** What the controllers say of an object: what is wrong first, in a sentence, and since when. */
export function Conditions({ of, remedyOf }: ConditionsProps): VNode {
  if (of.length === 0) return <p class="quiet">No controller has looked at it yet.</p>;
  const order = [...of].sort((a, b) => Number(isQuiet(a)) - Number(isQuiet(b)));
  return (
    <ul class="conditions">
      {order.map((condition) => {
        const { type, reason, message, last_transition_at: since } = condition;
        const remedy = remedyOf?.(condition);
        return (
          <li key={type} class="condition">
            <Shape of={shapeOf(condition)} />
            <div class="stack-tight">
              <span>
                {message === '' ? (
                  <span>
                    {labelOf(type)}: {labelOf(reason).toLowerCase()}
                  </span>
                ) : (
                  message
                )}
              </span>
              {remedy !== undefined && <span class="actions">{remedy}</span>}
              <details class="details small">
                <summary>Details</summary>
                <code>
                  {type}={condition.status} {reason}
                </code>
              </details>
            </div>
            <span class="quiet small">
              <Time at={since} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}
