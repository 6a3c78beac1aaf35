import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Diff } from '../../parts/diff.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { FieldDiff } from '../../parts/field-diff.tsx';
import { Filters } from '../../parts/filters.tsx';
import type { FilterValues } from '../../parts/filters.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Spark } from '../../parts/spark.tsx';
import { StatusWord } from '../../parts/status.tsx';
import { lookOfStatus, statusesOf } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { bytesText } from '../../parts/units.ts';
import { WindowBar } from '../../parts/window-bar.tsx';
import { sampleAfter, sampleBefore, sampleValues } from './samples.ts';

interface Row {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly bytes: number;
}

const statuses = statusesOf('application');
const sampleSpans = [
  { from: Date.parse('2026-01-01T00:00:00Z'), to: Date.parse('2026-01-02T18:00:00Z') },
  { from: Date.parse('2026-01-03T00:00:00Z'), to: Date.parse('2026-01-06T00:00:00Z') },
];
const rowsOf = (count: number): Row[] =>
  Array.from({ length: count }, (_, at) => ({
    id: String(at),
    name: at === 1 ? 'a-name-of-an-application-that-is-as-long-as-names-may-be' : `app-${at}`,
    status: statuses[at % statuses.length] ?? 'running',
    bytes: (at * 37_777_777) % 2_000_000_000,
  }));

export function DataPart(): VNode {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set(['2']));
  const [instant, setInstant] = useState(Date.parse('2026-01-04T12:00:00Z'));
  const [values, setValues] = useState<FilterValues>({ status: 'hibernating' });
  return (
    <>
      <Card title="Filters, with an unknown value">
        <Filters
          search="Filter by name"
          fields={[
            {
              name: 'status',
              label: 'Status',
              options: statuses.map((status) => ({ value: status, label: lookOfStatus('application', status).word })),
            },
          ]}
          values={values}
          onChange={setValues}
        />
      </Card>
      <Card title="A table of a few, with selection">
        <Rows label="A few applications" rows={rowsOf(6)} selected={selected} onSelect={setSelected} />
      </Card>
      <Card title="A table of 2,000: only rows in view are drawn">
        <Rows label="Many applications" rows={rowsOf(2000)} />
      </Card>
      <Card title="A table of none">
        <Rows label="No applications" rows={[]} />
      </Card>
      <Card title="A window of time with a hole">
        <WindowBar
          label="Instant of the sample"
          spans={sampleSpans}
          marks={sampleSpans.map(({ from }) => from)}
          value={instant}
          onChange={setInstant}
        />
      </Card>
      <Card title="Difference by line">
        <Diff label="Difference of two compose files" before={sampleBefore} after={sampleAfter} />
      </Card>
      <Card title="Difference by field">
        <FieldDiff
          changes={fieldChanges(
            { image: 'x:8', replicas: 2, env: { LOG_LEVEL: 'info', API_KEY: 'a' }, port: 80 },
            { image: 'x:9', replicas: 3, env: { LOG_LEVEL: 'info', API_KEY: 'b' }, port: 80 },
          )}
          secrets={['API_KEY']}
          setBy={{ image: 'git', replicas: 'ada' }}
        />
      </Card>
    </>
  );
}

interface RowsProps {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly selected?: ReadonlySet<string>;
  readonly onSelect?: (selected: ReadonlySet<string>) => void;
}

function Rows({ label, rows, selected, onSelect }: RowsProps): VNode {
  return (
    <Table
      label={label}
      rows={rows}
      keyOf={({ id }) => id}
      selected={selected}
      onSelect={onSelect}
      bulk={<Button isSmall>Restart</Button>}
      sort={{ column: 'name', isDescending: false }}
      empty={<EmptyState title="Nothing here">Applications would be listed here.</EmptyState>}
      columns={[
        {
          id: 'name',
          title: 'Name',
          isPrimary: true,
          cell: ({ name }) => <span class="strong">{name}</span>,
          sortBy: ({ name }) => name,
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: ({ status }) => <StatusWord look={lookOfStatus('application', status)} />,
        },
        {
          id: 'load',
          title: 'Load',
          cell: ({ id }) => (
            <Spark label="Load" values={sampleValues(40, Number(id) + 20, 9)} format={(value) => value.toFixed(0)} />
          ),
        },
        {
          id: 'bytes',
          title: 'Memory',
          isNumber: true,
          cell: ({ bytes }) => bytesText(bytes),
          sortBy: ({ bytes }) => bytes,
        },
        {
          id: 'menu',
          title: 'Actions',
          isNarrow: true,
          isBare: true,
          cell: ({ name }) => (
            <Menu
              label={`Actions of ${name}`}
              icon="more"
              tone="plain"
              entries={[
                { title: 'Run' },
                { label: 'Deploy', hint: 'd' },
                { label: 'Start', why: 'The application runs already' },
                'line',
                { label: 'Delete', isDanger: true },
              ]}
            />
          ),
        },
      ]}
    />
  );
}
