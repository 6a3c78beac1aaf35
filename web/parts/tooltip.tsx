import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { hide, placeBeside, show } from './popover.ts';

interface TooltipProps {
  readonly text: string;
  /** One element. */
  readonly children: ComponentChildren;
  /** Its id, where the element describes itself by it. */
  readonly id?: string;
  /** The text is the name of the element already, so that it is not read out a second time. */
  readonly isName?: boolean;
}

/** A short text beside an element on hover and focus. It only repeats or explains; Escape hides it. */
export function Tooltip({ text, children, id, isName = false }: TooltipProps): VNode {
  const own = useId();
  const box = useRef<HTMLSpanElement>(null);
  const tip = useRef<HTMLSpanElement>(null);
  const tipId = id ?? own;
  useEffect(() => {
    const child = box.current?.firstElementChild;
    if (!isName && child !== null && child !== undefined) child.setAttribute('aria-describedby', tipId);
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape' && tip.current !== null) hide(tip.current);
    };
    const onScroll = (): void => {
      if (tip.current !== null) hide(tip.current);
    };
    addEventListener('keydown', onKey);
    addEventListener('scroll', onScroll, { capture: true, passive: true });
    return () => {
      removeEventListener('keydown', onKey);
      removeEventListener('scroll', onScroll, { capture: true });
    };
  }, []);
  const open = (): void => {
    const child = box.current?.firstElementChild;
    if (tip.current === null || child === null || child === undefined) return;
    show(tip.current);
    placeBeside(tip.current, child, 'center');
  };
  const close = (): void => {
    if (tip.current !== null) hide(tip.current);
  };
  // a dialog that opens by a click gives its first button the focus, whose name would lie over what it says
  const onFocus = (): void => {
    if (!isName || box.current?.querySelector(':focus-visible') !== null) open();
  };
  return (
    <span class="tooltip-box" ref={box} onMouseEnter={open} onMouseLeave={close} onFocusIn={onFocus} onFocusOut={close}>
      {children}
      <span ref={tip} id={tipId} class="popover tooltip" role="tooltip" popover="manual">
        {text}
      </span>
    </span>
  );
}
