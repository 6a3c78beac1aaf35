import type { VNode } from 'preact';

export interface Crumb {
  readonly label: string;
  readonly href: string;
}

/** The way to a page: each part leads there. */
export function Crumbs({ of }: { readonly of: readonly Crumb[] }): VNode {
  return (
    <nav class="crumbs" aria-label="Where this is">
      <ol>
        {of.map(({ label, href }, at) => (
          <li key={href}>
            <a href={href}>{label}</a>
            {at < of.length - 1 && <span aria-hidden="true">/</span>}
          </li>
        ))}
      </ol>
    </nav>
  );
}
