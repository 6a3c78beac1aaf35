import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Data, Operation } from '../../api.ts';
import { Button } from '../../parts/button.tsx';
import { Shape } from '../../parts/shape.tsx';
import { Table } from '../../parts/table.tsx';

export type Converted = Data<Operation<'POST', '/api/v1/templates/convert-compose'>>;
type Key = Converted['keys'][number];

const looks = {
  kept: { word: 'kept', shape: 'good' },
  approximated: { word: 'made otherwise', shape: 'warn' },
  refused: { word: 'left out', shape: 'bad' },
} as const;
const outcomes = ['refused', 'approximated', 'kept'] as const;

/** The account of a compose file: what became of each of its keys, and why. */
export function ComposeAccount({ keys }: { readonly keys: readonly Key[] }): VNode {
  const [only, setOnly] = useState<Key['outcome']>();
  const rows = keys.filter(({ outcome }) => only === undefined || outcome === only);
  return (
    <div class="stack-tight">
      <div class="row" role="group" aria-label="What became of the keys">
        {outcomes.map((outcome) => (
          <Button
            key={outcome}
            isSmall
            pressed={outcome === only}
            onClick={() => setOnly(outcome === only ? undefined : outcome)}
          >
            {keys.filter((one) => one.outcome === outcome).length} {looks[outcome].word}
          </Button>
        ))}
      </div>
      <Table
        label="Keys of the compose file"
        rows={rows}
        keyOf={({ path, line, column }) => `${path} ${line} ${column}`}
        empty={<p class="quiet">None.</p>}
        columns={[
          {
            id: 'path',
            title: 'Key',
            isPrimary: true,
            cell: ({ path }) => <code>{path}</code>,
            sortBy: ({ path }) => path,
          },
          { id: 'line', title: 'Line', isNumber: true, cell: ({ line }) => line, sortBy: ({ line }) => line },
          {
            id: 'outcome',
            title: 'Became',
            isBare: true,
            cell: ({ outcome }) => (
              <span class="status">
                <Shape of={looks[outcome].shape} />
                <span class="status-word">{looks[outcome].word}</span>
              </span>
            ),
            sortBy: ({ outcome }) => outcomes.indexOf(outcome),
          },
          { id: 'why', title: 'How, or why', cell: ({ message }) => message },
        ]}
      />
    </div>
  );
}
