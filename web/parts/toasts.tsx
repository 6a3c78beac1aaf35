import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Button, IconButton } from './button.tsx';
import { hide } from './popover.ts';
import { Shape } from './shape.tsx';
import type { Shape as ShapeName } from './status-words.ts';

export interface Toast {
  readonly id: string;
  readonly shape: ShapeName;
  readonly text: string;
  readonly action?: { readonly label: string; readonly onClick: () => void } | undefined;
}

interface ToastsProps {
  readonly toasts: readonly Toast[];
  readonly onClose: (id: string) => void;
}

const shownMs = 6000;
const mostShown = 4;

/** Told without a place on the page: each goes by itself after six seconds, unless the reader is at it or it is bad. */
export function Toasts({ toasts, onClose }: ToastsProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const shown = toasts.slice(-mostShown);
  useEffect(() => {
    if (box.current === null) return;
    // shown again with each new one, so that it is above a dialog that was opened since
    hide(box.current);
    if (shown.length > 0) box.current.showPopover();
  }, [shown.map(({ id }) => id).join(' ')]);
  return (
    <>
      <div class="sr-only" role="status" aria-live="polite">
        {shown.at(-1)?.text ?? ''}
      </div>
      <div ref={box} class="toasts" popover="manual">
        {shown.map((toast) => (
          <ShownToast key={toast.id} toast={toast} onClose={() => onClose(toast.id)} />
        ))}
      </div>
    </>
  );
}

function ShownToast({ toast, onClose }: { readonly toast: Toast; readonly onClose: () => void }): VNode {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const close = useRef(onClose);
  close.current = onClose;
  const hold = (): void => clearTimeout(timer.current);
  const start = (): void => {
    hold();
    if (toast.shape !== 'bad') timer.current = setTimeout(() => close.current(), shownMs);
  };
  useEffect(() => {
    start();
    return hold;
  }, []);
  return (
    <div class="toast" onMouseEnter={hold} onMouseLeave={start} onFocusIn={hold} onFocusOut={start}>
      <Shape of={toast.shape} />
      <span class="toast-text">{toast.text}</span>
      {toast.action !== undefined && (
        <Button isSmall onClick={toast.action.onClick}>
          {toast.action.label}
        </Button>
      )}
      <IconButton icon="close" label="Close message" isSmall onClick={onClose} />
    </div>
  );
}
