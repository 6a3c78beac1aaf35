import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import type { RefObject } from 'preact';
import { useLayoutEffect, useReducer, useState } from 'preact/hooks';

/** Rows beyond both ends of the view that are drawn, so that scrolling shows no hole. */
const beyond = 12;
const tableRowHeight = 41;

interface VirtualRows {
  readonly start: number;
  /** After the last row that is drawn. */
  readonly end: number;
  /** Pixels of the rows before and after those that are drawn. */
  readonly before: number;
  readonly after: number;
  /** Measures a row that is drawn. */
  readonly measure: (row: HTMLElement | null) => void;
  readonly scrollTo: (row: number) => void;
}

/** The rows of a list that are seen in its box; all of them while it is not virtual. `height`: of a row, until it is measured. */
export function useVirtualRows(
  box: RefObject<HTMLElement | null>,
  count: number,
  isVirtual: boolean,
  height = tableRowHeight,
): VirtualRows {
  const [, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const options = {
    count: isVirtual ? count : 0,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: beyond,
    initialRect: { width: 1000, height: 800 },
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => draw(undefined),
  };
  const [virtualizer] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());
  const all = { start: 0, end: count, before: 0, after: 0, measure: () => undefined, scrollTo: () => undefined };
  if (!isVirtual) return all;
  const items = virtualizer.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  return {
    start: first?.index ?? 0,
    end: last === undefined ? 0 : last.index + 1,
    before: first?.start ?? 0,
    after: last === undefined ? 0 : virtualizer.getTotalSize() - last.end,
    measure: (row) => virtualizer.measureElement(row),
    scrollTo: (row) => virtualizer.scrollToIndex(row),
  };
}
