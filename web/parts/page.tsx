import type { ComponentChildren, VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { Crumbs } from './crumbs.tsx';
import type { Crumb } from './crumbs.tsx';
import { Tabs } from './tabs.tsx';
import type { Tab } from './tabs.tsx';

interface PageProps {
  readonly title: string;
  readonly crumbs?: readonly Crumb[] | undefined;
  /** Beside the title, such as a status. */
  readonly status?: ComponentChildren;
  /** A sentence below it. */
  readonly about?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly tabs?: readonly Tab[] | undefined;
  /** The address of the tab that is shown. */
  readonly current?: string | undefined;
  /** Uses the whole width, as logs and columns do. */
  readonly isWide?: boolean | undefined;
  readonly children: ComponentChildren;
}

/** The frame of every page: its way, its title as the only `h1`, its actions and its tabs. */
export function Page(props: PageProps): VNode {
  const { title, crumbs = [], status, about, actions, tabs = [], current = '', isWide = false, children } = props;
  useEffect(() => {
    document.title = `${title} · Setpoint`;
  }, [title]);
  return (
    <div class={isWide ? 'page page-wide' : 'page'}>
      <header class="page-head">
        {crumbs.length > 0 && <Crumbs of={crumbs} />}
        <div class="page-title-row">
          <div class="page-title">
            <h1 tabIndex={-1}>{title}</h1>
            {status}
          </div>
          {actions !== undefined && <div class="actions">{actions}</div>}
        </div>
        {about !== undefined && <p class="page-about">{about}</p>}
      </header>
      {tabs.length > 0 && <Tabs label={`Parts of ${title}`} tabs={tabs} current={current} />}
      {children}
    </div>
  );
}
