import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { ObjectOf } from '../../model.ts';
import { useVirtualRows } from '../../parts/use-virtual-rows.ts';
import { keepingPlaces, placesOf } from './places.ts';
import { ApplicationCard, DatabaseCard, FunctionCard, VolumeCard } from './workload.tsx';

/** What is shown as a card of an environment. */
export type Workload = {
  readonly [K in 'application' | 'database' | 'function' | 'volume']: { readonly kind: K; readonly it: ObjectOf<K> };
}['application' | 'database' | 'function' | 'volume'];

/** Cards above this number are drawn only where they are seen. */
const virtualFrom = 100;
const cardHeight = 88;

/**
 * The workloads of an environment. While the pointer or the focus is among them each keeps its place, so that a change of
 * state moves nothing away under it; a long list scrolls in a box of its own.
 */
export function WorkloadList({
  label,
  workloads,
}: {
  readonly label: string;
  readonly workloads: readonly Workload[];
}): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [hasPointer, setPointer] = useState(false);
  const [hasFocus, setFocus] = useState(false);
  const places = useRef<ReadonlyMap<string, number>>(undefined);
  if (!hasPointer && !hasFocus) places.current = undefined;
  else places.current ??= placesOf(workloads);
  const ordered = places.current === undefined ? workloads : keepingPlaces(workloads, places.current);
  const isVirtual = ordered.length > virtualFrom;
  const window = useVirtualRows(box, ordered.length, isVirtual, cardHeight);
  return (
    <div ref={box} class="workload-box" data-virtual={isVirtual ? true : undefined}>
      <ul
        class="workloads"
        aria-label={label}
        style={{ paddingTop: `${window.before}px`, paddingBottom: `${window.after}px` }}
        onPointerEnter={() => setPointer(true)}
        onPointerLeave={() => {
          setPointer(false);
          // a card that scrolled out of the view took the focus with it
          setFocus(box.current?.contains(document.activeElement) === true);
        }}
        onFocusIn={() => setFocus(true)}
        onFocusOut={() => setFocus(false)}
      >
        {ordered.slice(window.start, window.end).map((one, by) => (
          <li
            key={one.it.id}
            ref={window.measure}
            data-index={window.start + by}
            aria-setsize={isVirtual ? ordered.length : undefined}
            aria-posinset={isVirtual ? window.start + by + 1 : undefined}
          >
            <Card of={one} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Card({ of }: { readonly of: Workload }): VNode {
  switch (of.kind) {
    case 'application':
      return <ApplicationCard it={of.it} />;
    case 'database':
      return <DatabaseCard it={of.it} />;
    case 'function':
      return <FunctionCard it={of.it} />;
    case 'volume':
      return <VolumeCard it={of.it} />;
  }
}
