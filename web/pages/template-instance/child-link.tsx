import type { VNode } from 'preact';
import { useHref } from '../../frame/context.ts';
import type { Child } from './wave-steps.ts';

/** The name of a part of an instance; it leads to the part once that is made. */
export function ChildLink({ it }: { readonly it: Pick<Child, 'kind' | 'id' | 'name' | 'state'> }): VNode {
  const href = useHref();
  const { kind, id, name, state } = it;
  if (state === 'waiting' || state === 'gone') return <span class="strong">{name}</span>;
  const to =
    kind === 'application'
      ? href(['applications', id])
      : kind === 'database'
        ? href(['databases', id])
        : href(['volumes'], { q: name });
  return (
    <a class="strong" href={to}>
      {name}
    </a>
  );
}
