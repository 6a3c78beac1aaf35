import type { VNode } from 'preact';
import { Badge } from '../../parts/card.tsx';
import { actionLookOf } from './sync-words.ts';
import type { RunStep } from './sync-words.ts';

/** Steps of the plan of a commit: what each does to which object, and to which of its fields. */
export function RunSteps({ of, changes }: { readonly of: readonly RunStep[]; readonly changes: number }): VNode {
  return (
    <ol class="stack-tight" aria-label="Steps of the plan">
      {of.map(({ action, key, renamed_from: before, fields }) => {
        const { word, tone } = actionLookOf(action);
        return (
          <li key={key} class="row">
            <Badge tone={tone}>{word}</Badge>
            <code>
              {before !== null && `${before} → `}
              {key}
            </code>
            {fields.length > 0 && <span class="quiet small">{fields.join(', ')}</span>}
          </li>
        );
      })}
      {changes > of.length && <li class="quiet small">and {changes - of.length} more</li>}
    </ol>
  );
}
