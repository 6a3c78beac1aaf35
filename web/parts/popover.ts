const gap = 4;
const margin = 8;

/** Puts an open popover beside its anchor, on the side where there is room, and within the window. */
export function placeBeside(popover: HTMLElement, anchor: Element, align: 'start' | 'end' | 'center'): void {
  const at = anchor.getBoundingClientRect();
  const { width, height } = popover.getBoundingClientRect();
  const below = at.bottom + gap;
  const isAbove = below + height > innerHeight - margin && at.top - gap - height >= margin;
  const wanted = align === 'start' ? at.left : align === 'end' ? at.right - width : at.left + at.width / 2 - width / 2;
  const left = Math.max(margin, Math.min(wanted, innerWidth - margin - width));
  const top = isAbove ? at.top - gap - height : Math.max(margin, Math.min(below, innerHeight - margin - height));
  popover.style.left = `${Math.round(left)}px`;
  popover.style.top = `${Math.round(top)}px`;
}

/** Shows a popover if it is not shown yet. */
export function show(popover: HTMLElement): void {
  if (!popover.matches(':popover-open')) popover.showPopover();
}

/** Hides a popover if it is shown. */
export function hide(popover: HTMLElement): void {
  if (popover.matches(':popover-open')) popover.hidePopover();
}
