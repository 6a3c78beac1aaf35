import type { VNode } from 'preact';
import { useHref } from '../../frame/context.ts';
import type { PageProps } from '../page.ts';
import { Page } from '../../parts/page.tsx';
import { DataPart } from './data-part.tsx';
import { FormsPart } from './forms-part.tsx';
import { LogsPart } from './logs-part.tsx';
import { StatesPart } from './states-part.tsx';

const parts = [
  { id: 'states', label: 'States and words', Part: StatesPart },
  { id: 'data', label: 'Lists and differences', Part: DataPart },
  { id: 'forms', label: 'Forms and dialogs', Part: FormsPart },
  { id: 'logs', label: 'Logs, series, terminal', Part: LogsPart },
] as const;

/** All parts in all states: where a new page begins. */
export function GalleryPage({ query }: PageProps): VNode {
  const href = useHref();
  const current = parts.find(({ id }) => id === query.get('part')) ?? parts[0];
  const at = (id: string): string => href(['gallery'], id === 'states' ? {} : { part: id });
  return (
    <Page
      title="Gallery"
      about="All parts of the console in all their states."
      crumbs={[{ label: 'Projects', href: href(['projects']) }]}
      tabs={parts.map(({ id, label }) => ({ href: at(id), label }))}
      current={at(current.id)}
    >
      <current.Part />
    </Page>
  );
}
