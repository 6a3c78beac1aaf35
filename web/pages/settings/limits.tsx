import type { VNode } from 'preact';
import type { components } from '../../api-types.d.ts';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import type { Column } from '../../parts/table.tsx';
import { bytesText } from '../../parts/units.ts';
import { Shape } from '../../parts/shape.tsx';

type Scope = components['schemas']['ScopeLimits'];
type Measure = keyof Scope['used'];

const words = { installation: 'Installation', tenant: 'Tenant', user: 'User', project: 'Project' } as const;
const measures: readonly { measure: Measure; title: string; format: (value: number) => string }[] = [
  { measure: 'stored_bytes', title: 'Stored', format: bytesText },
  { measure: 'written_bytes_per_minute', title: 'Written in a minute', format: bytesText },
  { measure: 'objects', title: 'Objects', format: (value) => value.toLocaleString() },
  { measure: 'build_minutes_per_day', title: 'Build minutes in 24 h', format: (value) => value.toLocaleString() },
];
const nearly = 0.8;

/** What is used of what is allowed, of the tenant, oneself and each project. */
export function LimitsPart(): VNode {
  const { login } = useConsole();
  const href = useHref();
  const limits = useRead(() => call(login, 'GET', '/api/v1/limits'), []);
  if (limits.error !== undefined) return <ErrorBox error={limits.error} onRetry={limits.again} />;
  if (limits.data === undefined) return <Skeleton lines={6} label="Reading the limits" />;
  const columns: Column<Scope>[] = [
    {
      id: 'scope',
      title: 'Of',
      isPrimary: true,
      cell: ({ scope, id, name }) =>
        scope === 'project' && id !== null ? (
          <a href={href(['projects', id])}>{name ?? id}</a>
        ) : (
          <span class="strong">{name ?? words[scope]}</span>
        ),
    },
    { id: 'kind', title: 'Kind', cell: ({ scope }) => words[scope] },
    ...measures.map(({ measure, title, format }): Column<Scope> => ({
      id: measure,
      title,
      isNumber: true,
      sortBy: ({ used }) => used[measure],
      cell: ({ used, allowed }) => <Share used={used[measure]} most={allowed[measure]} format={format} />,
    })),
  ];
  return (
    <div class="stack">
      <p class="quiet">
        What requests may store, write and build. A request that would exceed a bound is refused and says so.
      </p>
      <Table
        label="Limits"
        rows={limits.data.scopes}
        keyOf={({ scope, id }) => `${scope} ${id ?? ''}`}
        columns={columns}
        empty={<p class="quiet">Nothing is bounded.</p>}
      />
    </div>
  );
}

interface ShareProps {
  readonly used: number;
  readonly most: number | null;
  readonly format: (value: number) => string;
}

function Share({ used, most, format }: ShareProps): VNode {
  if (most === null) return <span>{format(used)}</span>;
  return (
    <span class="status">
      {used >= most * nearly && <Shape of={used >= most ? 'bad' : 'warn'} />}
      <span>
        {format(used)} <span class="quiet">of {format(most)}</span>
      </span>
    </span>
  );
}
