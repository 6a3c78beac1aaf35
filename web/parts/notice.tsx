import type { ComponentChildren, VNode } from 'preact';
import { Shape } from './shape.tsx';
import type { Shape as ShapeName } from './status-words.ts';

interface NoticeProps {
  readonly shape: ShapeName;
  readonly children: ComponentChildren;
  readonly actions?: ComponentChildren;
}

/** Something that the reader should know at this place. */
export function Notice({ shape, children, actions }: NoticeProps): VNode {
  return (
    <div class={`notice notice-${shape}`}>
      <Shape of={shape} />
      <div class="notice-body">{children}</div>
      {actions !== undefined && <div class="actions">{actions}</div>}
    </div>
  );
}
