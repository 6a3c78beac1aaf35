import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call, messageOf } from '../../api.ts';
import type { Data, Operation } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { Badge } from '../../parts/card.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Table } from '../../parts/table.tsx';
import { countText } from './counts.ts';

export type Report = Data<Operation<'POST', '/api/v1/templates/validate'>>;
export type Variable = Report['variables'][number];
type Resource = Report['resources'][number];

const askAfterMs = 500;

/** What the server makes of the text of a template, asked once it has not changed for half a second. */
export function useReport(content: string): {
  readonly report: Report | undefined;
  readonly error: string | undefined;
} {
  const { login } = useConsole();
  const [found, setFound] = useState<{ content: string; report?: Report; error?: string }>();
  useEffect(() => {
    if (content.trim() === '') return undefined;
    let isCurrent = true;
    const timer = setTimeout(() => {
      call(login, 'POST', '/api/v1/templates/validate', { body: { content } }).then(
        (report) => isCurrent && setFound({ content, report }),
        (failure: unknown) => isCurrent && setFound({ content, error: messageOf(failure) }),
      );
    }, askAfterMs);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [content]);
  const isCurrent = found?.content === content;
  return { report: isCurrent ? found.report : undefined, error: isCurrent ? found.error : undefined };
}

/** What is wrong with the text of a template, and what it would make. */
export function ReportView({
  report,
  error,
}: {
  readonly report: Report | undefined;
  readonly error: string | undefined;
}): VNode {
  return (
    <div role="status" class="stack-tight">
      {error !== undefined && (
        <Notice shape="bad">
          <p>{error}</p>
        </Notice>
      )}
      {report !== undefined && (
        <Notice shape={report.valid ? 'good' : 'bad'}>
          <p>{report.valid ? `Makes ${makesText(report.resources)}` : 'The text is not taken as it is:'}</p>
          <Findings of={report.errors} />
        </Notice>
      )}
      {report !== undefined && report.warnings.length > 0 && (
        <Notice shape="warn">
          <p>Look at these:</p>
          <Findings of={report.warnings} />
        </Notice>
      )}
    </div>
  );
}

function Findings({ of }: { readonly of: Report['errors'] }): VNode | null {
  if (of.length === 0) return null;
  return (
    <ul>
      {of.map((one) => (
        <li key={`${one.line} ${one.column} ${one.message}`}>
          Line {one.line}: {one.path !== '' && <code>{one.path}</code>} {one.message}
        </li>
      ))}
    </ul>
  );
}

/** What a template makes, such as `1 database, 1 application, in 2 waves`. */
export function makesText(resources: readonly Resource[]): string {
  if (resources.length === 0) return 'nothing';
  const kinds = [...Map.groupBy(resources, ({ kind }) => kind)].map(([kind, of]) => countText(of.length, kind));
  const waves = new Set(resources.map(({ wave }) => wave)).size;
  return `${kinds.join(', ')}, in ${countText(waves, 'wave')}`;
}

/** What a template makes, wave by wave. */
export function Waves({ of }: { readonly of: readonly Resource[] }): VNode {
  const waves = [...Map.groupBy(of, ({ wave }) => wave)].toSorted(([a], [b]) => a - b);
  return (
    <ol class="stack-tight" aria-label="Waves">
      {waves.map(([wave, resources], at) => (
        <li key={wave} class="row">
          <span class="quiet">Wave {at + 1}</span>
          {resources.map(({ kind, name }) => (
            <span key={`${kind} ${name}`}>
              {kind} <span class="strong">{name}</span>
            </span>
          ))}
        </li>
      ))}
    </ol>
  );
}

/** The variables of a template, with what each takes. */
export function Variables({ of }: { readonly of: readonly Variable[] }): VNode {
  return (
    <Table
      label="Variables"
      rows={of}
      keyOf={({ name }) => name}
      empty={<p class="quiet">It has none: it always makes the same.</p>}
      columns={[
        {
          id: 'name',
          title: 'Variable',
          isPrimary: true,
          cell: ({ name, display_name: title }) => (
            <span>
              <code>{name}</code> {title !== null && <span class="quiet">{title}</span>}
            </span>
          ),
        },
        {
          id: 'type',
          title: 'Type',
          cell: ({ type, options }) => (options === null ? type : `one of ${options.join(', ')}`),
        },
        {
          id: 'value',
          title: 'Without a value',
          cell: ({ default: usual, generated, required }) =>
            usual !== null ? (
              <code>{usual}</code>
            ) : generated ? (
              'one is made'
            ) : required ? (
              <Badge tone="warn">needed</Badge>
            ) : (
              'empty'
            ),
        },
        { id: 'about', title: 'About', cell: ({ description }) => description },
      ]}
    />
  );
}
