import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from './icon.tsx';
import { useVirtualRows } from './use-virtual-rows.ts';

export interface Column<T> {
  readonly id: string;
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Rows can be ordered by it. */
  readonly sortBy?: ((row: T) => string | number) | undefined;
  readonly isNumber?: boolean | undefined;
  /** The name of the row: in a narrow window it is the first line of its card. */
  readonly isPrimary?: boolean | undefined;
  /** As narrow as what it has. */
  readonly isNarrow?: boolean | undefined;
  /** In a narrow window its value speaks for itself. */
  readonly isBare?: boolean | undefined;
}

export interface Sort {
  readonly column: string;
  readonly isDescending: boolean;
}

interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  /** Where Enter on a row leads to. */
  readonly hrefOf?: ((row: T) => string) | undefined;
  /** The order at first; without it, rows stay as they come. */
  readonly sort?: Sort | undefined;
  readonly onSort?: ((sort: Sort) => void) | undefined;
  readonly selected?: ReadonlySet<string> | undefined;
  readonly onSelect?: ((selected: ReadonlySet<string>) => void) | undefined;
  /** Verbs for what is selected. */
  readonly bulk?: ComponentChildren;
  /** In place of a table without rows. */
  readonly empty?: ComponentChildren;
}

/** Rows above this number are drawn only where they are seen. */
const virtualFrom = 100;

/**
 * A table with a sticky head, sorting, selection and keys: j and k move, Enter opens, x selects. In a window of less than
 * 640 px each row is a card of two lines.
 */
export function Table<T>(props: TableProps<T>): VNode {
  const { label, columns, rows, keyOf, hrefOf, selected, onSelect, bulk, empty } = props;
  const [ownSort, setOwnSort] = useState(props.sort);
  const [current, setCurrent] = useState<string>();
  const box = useRef<HTMLDivElement>(null);
  const wantsFocus = useRef(false);
  const sort = props.onSort === undefined ? ownSort : props.sort;
  const ordered = sorted(rows, columns, sort);
  const isVirtual = ordered.length > virtualFrom;
  const window = useVirtualRows(box, ordered.length, isVirtual);
  useEffect(() => {
    if (!wantsFocus.current || current === undefined) return;
    const row = box.current?.querySelector<HTMLElement>(`tr[data-key="${CSS.escape(current)}"]`);
    if (row === null || row === undefined) return;
    wantsFocus.current = false;
    row.focus();
  });
  if (rows.length === 0) return <>{empty}</>;
  const canSelect = selected !== undefined && onSelect !== undefined;
  const toggle = (key: string): void => {
    if (!canSelect) return;
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect(next);
  };
  const onKeyDown = (event: KeyboardEvent, at: number): void => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = ordered[at];
    const to = rowFor(event.key, at, ordered.length);
    if (to !== undefined) {
      event.preventDefault();
      const next = ordered[to];
      if (next === undefined) return;
      wantsFocus.current = true;
      setCurrent(keyOf(next));
      window.scrollTo(to);
    } else if (row !== undefined && event.key === 'Enter' && hrefOf !== undefined) location.hash = hrefOf(row);
    else if (row !== undefined && event.key === 'x') toggle(keyOf(row));
  };
  const first = ordered.find((row) => keyOf(row) === current) ?? ordered[window.start];
  const changeSort = (next: Sort): void => {
    setOwnSort(next);
    props.onSort?.(next);
  };
  const width = columns.length + (canSelect ? 1 : 0);
  return (
    <div>
      {canSelect && selected.size > 0 && (
        <div class="table-bulk" role="status">
          <span class="strong">{selected.size} selected</span>
          {bulk}
          <button type="button" class="link-button" onClick={() => onSelect(new Set())}>
            Clear
          </button>
        </div>
      )}
      <div class="table-box" ref={box}>
        <table
          class="table"
          role="table"
          aria-label={label}
          aria-rowcount={ordered.length + 1}
          data-virtual={isVirtual ? true : undefined}
        >
          <thead role="rowgroup">
            <tr role="row">
              {canSelect && (
                <th role="columnheader" scope="col" class="narrow">
                  <input
                    type="checkbox"
                    class="check"
                    aria-label={`Select all of ${label}`}
                    checked={selected.size === ordered.length}
                    onChange={(event) => onSelect(new Set(event.currentTarget.checked ? ordered.map(keyOf) : []))}
                  />
                </th>
              )}
              {columns.map((column) => (
                <HeadCell key={column.id} column={column} sort={sort} onSort={changeSort} />
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            <Spacer height={window.before} width={width} />
            {ordered.slice(window.start, window.end).map((row, by) => {
              const at = window.start + by;
              const key = keyOf(row);
              return (
                <tr
                  key={key}
                  role="row"
                  ref={window.measure}
                  data-index={at}
                  data-key={key}
                  data-selected={selected?.has(key) === true ? true : undefined}
                  aria-rowindex={at + 2}
                  tabIndex={row === first ? 0 : -1}
                  onKeyDown={(event) => onKeyDown(event, at)}
                  onFocus={() => setCurrent(key)}
                >
                  {canSelect && (
                    <td role="cell" class="select narrow">
                      <input
                        type="checkbox"
                        class="check"
                        aria-label={`Select ${key}`}
                        checked={selected.has(key)}
                        onChange={() => toggle(key)}
                      />
                    </td>
                  )}
                  {columns.map((column) => (
                    <td key={column.id} role="cell" class={classOf(column)} data-label={column.title}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              );
            })}
            <Spacer height={window.after} width={width} />
          </tbody>
        </table>
      </div>
    </div>
  );
}

function HeadCell<T>({
  column,
  sort,
  onSort,
}: {
  readonly column: Column<T>;
  readonly sort: Sort | undefined;
  readonly onSort: (sort: Sort) => void;
}): VNode {
  const isSorted = sort?.column === column.id;
  const direction = !isSorted ? undefined : sort.isDescending ? 'descending' : 'ascending';
  return (
    <th role="columnheader" scope="col" class={classOf(column)} aria-sort={direction}>
      {column.sortBy === undefined ? (
        column.title
      ) : (
        <button
          type="button"
          class="table-sort"
          onClick={() => onSort({ column: column.id, isDescending: isSorted && !sort.isDescending })}
        >
          {column.title}
          <Icon name={direction === undefined ? 'sort' : direction === 'ascending' ? 'arrow-up' : 'arrow-down'} />
        </button>
      )}
    </th>
  );
}

function Spacer({ height, width }: { readonly height: number; readonly width: number }): VNode | null {
  if (height === 0) return null;
  return (
    <tr class="spacer-row" aria-hidden="true">
      <td class="spacer" colSpan={width} style={{ height: `${height}px` }} />
    </tr>
  );
}

function classOf<T>({ isNumber, isPrimary, isNarrow, isBare }: Column<T>): string {
  return [
    isNumber === true && 'end',
    isPrimary === true && 'table-primary',
    isNarrow === true && 'narrow',
    isBare === true && 'bare',
  ]
    .filter((name) => name !== false)
    .join(' ');
}

function rowFor(key: string, at: number, count: number): number | undefined {
  switch (key) {
    case 'j':
    case 'ArrowDown':
      return Math.min(count - 1, at + 1);
    case 'k':
    case 'ArrowUp':
      return Math.max(0, at - 1);
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return undefined;
  }
}

const collator = new Intl.Collator(undefined, { numeric: true });

function sorted<T>(rows: readonly T[], columns: readonly Column<T>[], sort: Sort | undefined): readonly T[] {
  const by = columns.find(({ id }) => id === sort?.column)?.sortBy;
  if (by === undefined || sort === undefined) return rows;
  const compare = (one: string | number, other: string | number): number =>
    typeof one === 'number' && typeof other === 'number' ? one - other : collator.compare(String(one), String(other));
  const sign = sort.isDescending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: by(row) }))
    .toSorted((a, b) => sign * compare(a.value, b.value))
    .map(({ row }) => row);
}
