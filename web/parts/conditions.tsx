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

/** Conditions that say something else than that all is well where they are true. */
const shapesWhenTrue: Readonly<Record<string, ShapeName>> = {
  Stalled: 'bad',
  DataLost: 'bad',
  AgentIdentityConflict: 'bad',
  AgentUpdateFailed: 'bad',
  RemovalsHeld: 'warn',
  AgentTooOld: 'warn',
  AgentUpdateAvailable: 'info',
};
/** Conditions of an engine that are good where they are true; every other one of it is a warning. */
const goodOfEngine = new Set(['EngineReady', 'EngineInstalled']);
/** Conditions that say what is being done. */
const progress = new Set(['Reconciling', 'Restoring', 'Cloning', 'Deleting']);

function shapeOf({ type, status, reason }: ConditionView): ShapeName {
  if (status === 'unknown') return 'waiting';
  if (progress.has(type)) return status === 'true' ? 'busy' : 'good';
  const whenTrue = shapesWhenTrue[type] ?? (type.startsWith('Engine') && !goodOfEngine.has(type) ? 'warn' : undefined);
  if (whenTrue !== undefined) return status === 'true' ? whenTrue : 'good';
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
