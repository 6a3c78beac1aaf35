import type { ComponentChildren, VNode } from 'preact';
import { Command } from './command.tsx';

interface EmptyStateProps {
  readonly title: string;
  /** What this is, for somebody who sees it the first time. */
  readonly children: ComponentChildren;
  /** The one action. */
  readonly action?: ComponentChildren;
  /** The same as a command. */
  readonly command?: string | undefined;
}

/** In place of a list that has nothing: what would be here, and how it comes here. */
export function EmptyState({ title, children, action, command }: EmptyStateProps): VNode {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p class="quiet">{children}</p>
      {action !== undefined && <div class="actions">{action}</div>}
      {command !== undefined && <Command text={command} />}
    </div>
  );
}
