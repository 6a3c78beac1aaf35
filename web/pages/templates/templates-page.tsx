import type { VNode } from 'preact';
import { allTemplates } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Badge } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import type { PageProps } from '../page.ts';
import { templateTabs } from './template-tabs.ts';

type Template = ObjectOf<'template'>;

const mostTags = 30;

/** The catalogue: what can be made in one go, by name and tag. */
export function TemplatesPage({ query }: PageProps): VNode {
  const { router, collections } = useConsole();
  const href = useHref();
  const templates = useList(allTemplates, 'template');
  const text = (query.get('q') ?? '').trim().toLowerCase();
  const tag = query.get('tag') ?? '';
  const all = byName(templates.objects);
  const rows = all.filter((one) => (tag === '' || one.tags.includes(tag)) && isLike(one, text));
  const create = (
    <LinkButton tone="primary" icon="plus" href={href(['templates', '-', 'new'])}>
      New template
    </LinkButton>
  );
  const change = (next: Readonly<Record<string, string>>): void =>
    router.replace(href(['templates'], { q: query.get('q') ?? '', tag, ...next }));
  return (
    <Page
      title="Templates"
      actions={
        <>
          {create}
          <LinkButton href={href(['templates', '-', 'new'], { from: 'compose' })}>From compose</LinkButton>
        </>
      }
      tabs={templateTabs(href)}
      current={href(['templates'])}
    >
      {templates.reading.state === 'failed' && (
        <ErrorBox error={{ message: templates.reading.message }} onRetry={() => collections.retry(allTemplates)} />
      )}
      {templates.reading.state === 'reading' && all.length === 0 && <Skeleton label="Reading templates" />}
      {templates.reading.state === 'ready' && all.length === 0 && (
        <EmptyState title="No template yet" command="setpoint create template -f template.yaml">
          A template is a text that declares applications, databases and volumes that belong together, with variables.
          What is made of it comes up in one go. It is written, or made of a compose file.
        </EmptyState>
      )}
      {all.length > 0 && (
        <>
          <Filters
            search="Search templates"
            fields={[]}
            values={text === '' ? {} : { q: query.get('q') ?? '' }}
            onChange={(next) => change({ q: next['q'] ?? '' })}
          />
          <Tags of={all} chosen={tag} onChoose={(next) => change({ tag: next })} />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {all.length} templates is like this. <a href={href(['templates'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <ul class="cards" aria-label="Templates">
              {rows.map((one) => (
                <TemplateCard key={one.id} it={one} />
              ))}
            </ul>
          )}
        </>
      )}
    </Page>
  );
}

function isLike({ name, display_name: title, description, tags }: Template, text: string): boolean {
  return [name, title ?? '', description ?? '', ...tags].some((one) => one.toLowerCase().includes(text));
}

interface TagsProps {
  readonly of: readonly Template[];
  readonly chosen: string;
  readonly onChoose: (tag: string) => void;
}

function Tags({ of, chosen, onChoose }: TagsProps): VNode | null {
  const counts = new Map<string, number>();
  for (const tag of of.flatMap(({ tags }) => tags)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  const shown = [...counts].toSorted(([a], [b]) => a.localeCompare(b)).slice(0, mostTags);
  if (shown.length === 0) return null;
  return (
    <div class="row" role="group" aria-label="Tags">
      {shown.map(([tag, count]) => (
        <Button key={tag} isSmall pressed={tag === chosen} onClick={() => onChoose(tag === chosen ? '' : tag)}>
          {tag} <span class="quiet numeric">{count}</span>
        </Button>
      ))}
    </div>
  );
}

function TemplateCard({ it }: { readonly it: Template }): VNode {
  const href = useHref();
  const title = it.display_name ?? it.name;
  return (
    <li class="template-card">
      <div class="template-head">
        <span class="template-letter" aria-hidden="true">
          {title.slice(0, 1).toUpperCase()}
        </span>
        <a class="template-name grow" href={href(['templates', it.id])}>
          {title}
        </a>
        <LinkButton href={href(['templates', it.id, 'use'])}>
          Use<span class="sr-only"> {title}</span>
        </LinkButton>
      </div>
      {it.description !== null && <p class="template-about">{it.description}</p>}
      <p class="row small quiet">
        {it.tags.map((tag) => (
          <Badge key={tag}>{tag}</Badge>
        ))}
        <span>{it.instance_count === 1 ? '1 instance' : `${it.instance_count} instances`}</span>
      </p>
    </li>
  );
}
