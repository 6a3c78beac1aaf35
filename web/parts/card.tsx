import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';

interface CardProps {
  readonly title: string;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a page with a heading. */
export function Card({ title, actions, children }: CardProps): VNode {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <div class="card-head">
        <h2 id={id}>{title}</h2>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** Names and values. A value that is absent leaves its row out. */
export function Facts({ of }: { readonly of: readonly (readonly [name: string, value: ComponentChildren])[] }): VNode {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '')
        .map(([name, value]) => [<dt key={`${name} name`}>{name}</dt>, <dd key={name}>{value}</dd>])}
    </dl>
  );
}

/** A word on a ground of its tone. */
export function Badge({
  tone,
  children,
}: {
  readonly tone?: 'good' | 'busy' | 'warn' | 'bad' | undefined;
  readonly children: ComponentChildren;
}): VNode {
  return <span class={`badge${tone === undefined ? '' : ` badge-${tone}`}`}>{children}</span>;
}
