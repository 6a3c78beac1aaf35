import type { VNode } from 'preact';

export interface Tab {
  readonly href: string;
  readonly label: string;
  /** A number beside the word, such as how many there are. */
  readonly count?: number | undefined;
}

/** The parts of a page, each with an address of its own. */
export function Tabs({ label, tabs, current }: { label: string; tabs: readonly Tab[]; current: string }): VNode {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.href} href={tab.href} aria-current={tab.href === current ? 'page' : undefined}>
          {tab.label}
          {tab.count !== undefined && <span class="quiet numeric small">{tab.count}</span>}
        </a>
      ))}
    </nav>
  );
}
