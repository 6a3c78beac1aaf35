import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';
import { AnsiLine } from './ansi-line.tsx';
import { Button, IconButton } from './button.tsx';
import { copyText } from './copy-text.ts';
import { LogRows } from './log-rows.ts';
import { LogSearch } from './log-search.ts';
import type { LogLine, LogRing } from './log-ring.ts';
import { clockTime, durationText } from './relative-time.ts';
import { saveAs } from './save-as.ts';

interface LogViewProps {
  readonly label: string;
  readonly ring: LogRing;
  /** In place of the lines while there is none. */
  readonly empty: ComponentChildren;
  /** Before the tools, such as a choice of the source. */
  readonly tools?: ComponentChildren;
  /** Below the tools: a lost connection, lines that left the ring. */
  readonly notice?: ComponentChildren;
  /** The name of what wrote a line, where `source` of a line is its id; names may be known later than lines. */
  readonly nameOf?: ((source: string) => string) | undefined;
  /** The address of a line. */
  readonly hrefOf?: ((line: LogLine, number: number) => string) | undefined;
  /** The line to show at first, by its `seq`. */
  readonly at?: number | undefined;
  /** Name of the file that the lines are saved as. */
  readonly fileName: string;
  /** Saves all stored lines; without it, those that are held here are saved. */
  readonly onDownload?: (() => void) | undefined;
  /** The log has ended: no line will follow. */
  readonly isEnded?: boolean | undefined;
}

const rowHeight = 18;
const beyond = 20;
const sliceMs = 4;

/**
 * Up to 100,000 lines, of which only those in view are drawn. It follows the end until the reader scrolls up or selects
 * text, and goes on by the button. Keys: / finds, n and N move between what was found, f follows, w wraps, g and G go to
 * the ends, [ and ] fold and unfold.
 */
export function LogView(props: LogViewProps): VNode {
  const { label, ring, empty, tools, notice, nameOf, hrefOf, at, fileName, onDownload, isEnded = false } = props;
  const [, draw] = useReducer((drawn: number) => drawn + 1, 0);
  const [follows, setFollows] = useState(at === undefined);
  const [wraps, setWraps] = useState(false);
  const [showsTime, setShowsTime] = useState(true);
  const [folded, setFolded] = useState<ReadonlySet<number>>(new Set());
  const [needle, setNeedle] = useState('');
  const [marked, setMarked] = useState<number>();
  const [unseenFrom, setUnseenFrom] = useState(ring.end);
  const box = useRef<HTMLDivElement>(null);
  const find = useRef<HTMLInputElement>(null);
  const rows = useRef<LogRows | undefined>(undefined);
  if (rows.current?.ring !== ring) rows.current = new LogRows(ring);
  const search = useRef<LogSearch | undefined>(undefined);
  const lastTop = useRef(0);
  const state = useRef({ follows });
  state.current = { follows };
  const { sums } = rows.current;

  // another ring has other lines, whose numbers begin anew
  useEffect(() => {
    setFolded(new Set());
    setMarked(undefined);
    setUnseenFrom(ring.end);
  }, [ring]);

  // new lines are drawn at most once per frame of the screen
  useEffect(() => {
    let frame: number | undefined;
    const onLines = (): void => {
      frame ??= requestAnimationFrame(() => {
        frame = undefined;
        const gone = rows.current?.advance() ?? 0;
        const element = box.current;
        if (element !== null && gone > 0 && !state.current.follows) {
          element.scrollTop -= gone * rowHeight;
          lastTop.current = element.scrollTop;
        }
        draw(undefined);
      });
    };
    const end = ring.subscribe(onLines);
    onLines();
    return () => {
      end();
      if (frame !== undefined) cancelAnimationFrame(frame);
    };
  }, [ring]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || !follows) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  });
  useEffect(() => {
    if (follows) setUnseenFrom(ring.end);
  }, [follows, ring.end]);

  const scrollToLine = (number: number): void => {
    const element = box.current;
    if (element === null) return;
    setFollows(false);
    element.scrollTop = Math.max(0, sums.topOf(number) * rowHeight - element.clientHeight / 3);
    lastTop.current = element.scrollTop;
    draw(undefined);
  };
  // the line of the address, once it has come
  const sought = useRef(at);
  useEffect(() => {
    if (sought.current === undefined) return;
    for (let number = ring.first; number < ring.end; number += 1)
      if (ring.at(number)?.seq === sought.current) {
        sought.current = undefined;
        setMarked(number);
        scrollToLine(number);
        return;
      }
  }, [ring.end]);

  // wrapped rows are computed from the width of a character
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const measure = (): void => {
      rows.current?.setColumns(wraps ? columnsOf(element, showsTime, ring.hasSources) : 0);
      draw(undefined);
    };
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [wraps, showsTime, ring.hasSources, ring]);

  // a search reads in slices, and goes on with new lines
  useEffect(() => {
    search.current = needle === '' ? undefined : new LogSearch(ring, needle);
    let frame: number | undefined;
    const slice = (): void => {
      frame = undefined;
      const isLeft = search.current?.slice(performance.now() + sliceMs, () => performance.now()) ?? false;
      draw(undefined);
      if (isLeft) frame = requestAnimationFrame(slice);
    };
    const start = (): void => {
      if (search.current !== undefined) frame ??= requestAnimationFrame(slice);
    };
    start();
    const end = ring.subscribe(start);
    return () => {
      end();
      if (frame !== undefined) cancelAnimationFrame(frame);
    };
  }, [needle, ring]);
  const matches = search.current?.matches ?? [];
  const jump = (direction: 1 | -1): void => {
    const from = marked ?? (direction === 1 ? -1 : Infinity);
    const next =
      direction === 1
        ? (matches.find((number) => number > from) ?? matches[0])
        : (matches.findLast((number) => number < from) ?? matches.at(-1));
    if (next === undefined) return;
    setMarked(next);
    scrollToLine(next);
  };

  useEffect(() => {
    const onSelect = (): void => {
      const selection = getSelection();
      if (selection === null || selection.isCollapsed || !state.current.follows) return;
      if (box.current?.contains(selection.anchorNode) === true) setFollows(false);
    };
    document.addEventListener('selectionchange', onSelect);
    return () => document.removeEventListener('selectionchange', onSelect);
  }, []);
  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < rowHeight / 2;
    if (isAtEnd && !follows) setFollows(true);
    else if (!isAtEnd && follows && element.scrollTop < lastTop.current) setFollows(false);
    lastTop.current = element.scrollTop;
    draw(undefined);
  };

  const fold = (next: ReadonlySet<number>): void => {
    rows.current?.setFolded(next);
    setFolded(next);
  };
  const steps = stepsOf(ring);
  const save = (): void => {
    if (onDownload === undefined) saveAs(fileName, ring.asText());
    else onDownload();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement) return;
    const keys: Readonly<Record<string, () => void>> = {
      '/': () => find.current?.focus(),
      n: () => jump(1),
      N: () => jump(-1),
      f: () => setFollows(!follows),
      w: () => setWraps(!wraps),
      g: () => scrollToLine(ring.first),
      G: () => setFollows(true),
      '[': () => fold(new Set(steps)),
      ']': () => fold(new Set()),
    };
    const verb = keys[event.key];
    if (verb === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    verb();
  };

  const unseen = Math.max(0, ring.end - Math.max(unseenFrom, ring.first));
  const place = matches.findIndex((number) => number === marked) + 1;
  return (
    <section class="log" aria-label={label} onKeyDown={onKeyDown}>
      <div class="log-tools">
        {tools}
        <div class="log-find" role="search">
          <input
            ref={find}
            type="search"
            class="input"
            aria-label={`Find in ${label}`}
            placeholder="Find"
            value={needle}
            onInput={(event) => {
              setMarked(undefined);
              setNeedle(event.currentTarget.value);
            }}
            onKeyDown={(event) => {
              if (event.key === 'Enter') jump(event.shiftKey ? -1 : 1);
              else if (event.key === 'Escape') setNeedle('');
            }}
          />
          {needle !== '' && (
            <span class="log-count" role="status">
              {matches.length === 0
                ? `none of ${ring.length.toLocaleString()} lines`
                : `${place === 0 ? '–' : place} of ${matches.length.toLocaleString()}${search.current?.isFull === true ? '+' : ''}`}
            </span>
          )}
        </div>
        <span class="button-group">
          <Button isSmall pressed={follows} onClick={() => setFollows(!follows)}>
            {isEnded ? 'End' : 'Follow'}
          </Button>
          <Button isSmall pressed={wraps} onClick={() => setWraps(!wraps)}>
            Wrap
          </Button>
          <Button isSmall pressed={showsTime} onClick={() => setShowsTime(!showsTime)}>
            Time
          </Button>
        </span>
        {steps.length > 1 && (
          <Button isSmall onClick={() => fold(folded.size === 0 ? new Set(steps) : new Set())}>
            {folded.size === 0 ? 'Fold all' : 'Unfold all'}
          </Button>
        )}
        <IconButton icon="copy" label="Copy all lines" onClick={() => void copyText(ring.asText())} />
        <IconButton icon="download" label="Save as a file" onClick={save} />
      </div>
      {notice}
      <div class="log-box" ref={box} role="log" aria-label={label} aria-live="off" tabIndex={0} onScroll={onScroll}>
        {ring.length === 0 ? (
          <div class="log-empty">{empty}</div>
        ) : (
          <div class="log-space" style={{ height: `${sums.total * rowHeight}px` }}>
            {visible(box.current, sums).map(({ number, top }) => (
              <Line
                key={number}
                ring={ring}
                number={number}
                top={top}
                needle={needle.toLowerCase()}
                isMarked={number === marked}
                wraps={wraps}
                showsTime={showsTime}
                nameOf={nameOf}
                hrefOf={hrefOf}
                isFolded={folded.has(number)}
                onFold={() => {
                  const next = new Set(folded);
                  if (!next.delete(number)) next.add(number);
                  fold(next);
                }}
              />
            ))}
          </div>
        )}
      </div>
      {!follows && unseen > 0 && (
        <span class="log-more">
          <Button tone="primary" icon="arrow-down" onClick={() => setFollows(true)}>
            {unseen.toLocaleString()} new
          </Button>
        </span>
      )}
    </section>
  );
}

/** The lines whose rows are in view, with some on both sides. */
function visible(element: HTMLElement | null, sums: LogRows['sums']): { number: number; top: number }[] {
  const height = element?.clientHeight ?? 600;
  const firstRow = Math.max(0, Math.floor((element?.scrollTop ?? 0) / rowHeight) - beyond);
  const lastRow = firstRow + Math.ceil(height / rowHeight) + 2 * beyond;
  const lines: { number: number; top: number }[] = [];
  const start = sums.itemAt(Math.min(firstRow, Math.max(0, sums.total - 1)));
  let { top } = start;
  for (let { number } = start; number < sums.end && top <= lastRow; number += 1) {
    const own = sums.rowsOf(number);
    if (own > 0) lines.push({ number, top });
    top += own;
  }
  return lines;
}

interface LineProps {
  readonly ring: LogRing;
  readonly number: number;
  readonly top: number;
  readonly needle: string;
  readonly isMarked: boolean;
  readonly wraps: boolean;
  readonly showsTime: boolean;
  readonly nameOf: LogViewProps['nameOf'];
  readonly hrefOf: LogViewProps['hrefOf'];
  readonly isFolded: boolean;
  readonly onFold: () => void;
}

function Line(props: LineProps): VNode | null {
  const { ring, number, top, needle, isMarked, wraps, showsTime, nameOf, hrefOf, isFolded, onFold } = props;
  const line = ring.at(number);
  if (line === undefined) return null;
  const style = { top: `${top * rowHeight}px` };
  if (line.mark === 'gap')
    return (
      <div class="log-line log-gap" style={style}>
        ┄┄ {line.text} ┄┄
      </div>
    );
  if (line.mark === 'step')
    return (
      <div class="log-line log-fold" style={style}>
        <button type="button" aria-expanded={!isFolded} onClick={onFold}>
          {isFolded ? '▸' : '▾'} {line.text}
          {isFolded && <span class="quiet"> {foldNote(ring, number)}</span>}
        </button>
      </div>
    );
  const label = String(number + 1);
  const source = nameOf?.(line.source) ?? line.source;
  return (
    <div
      class={`log-line log-${line.level}${wraps ? ' log-line-wrap' : ''}`}
      style={style}
      data-current={isMarked ? true : undefined}
    >
      {hrefOf === undefined ? (
        <span class="log-number">{label}</span>
      ) : (
        <a class="log-number" href={hrefOf(line, number)} tabIndex={-1} aria-label={`Line ${label}`}>
          {label}
        </a>
      )}
      {showsTime && <span class="log-time">{line.at === 0 ? '' : clockTime(line.at)}</span>}
      {ring.hasSources && (
        <span class="log-source" title={source}>
          {source}
        </span>
      )}
      <span class="log-text">
        <AnsiLine text={line.text} needle={needle} />
      </span>
    </div>
  );
}

/** How many lines a folded step has, and how long it took. */
function foldNote(ring: LogRing, step: number): string {
  let end = step + 1;
  while (end < ring.end && !ring.isStep(end)) end += 1;
  const [first, last] = [ring.at(step + 1)?.at ?? 0, ring.at(end - 1)?.at ?? 0];
  const time = first > 0 && last >= first && end - 1 > step + 1 ? ` · ${durationText(last - first)}` : '';
  return `${end - step - 1} lines${time}`;
}

function stepsOf(ring: LogRing): number[] {
  const steps: number[] = [];
  for (let number = ring.first; number < ring.end; number += 1) if (ring.isStep(number)) steps.push(number);
  return steps;
}

const probeLength = 100;

/** How many characters of a line have room beside its number, time and source. */
function columnsOf(element: HTMLElement, showsTime: boolean, hasSources: boolean): number {
  const probe = document.createElement('span');
  probe.className = 'log-probe';
  probe.textContent = '0'.repeat(probeLength);
  element.append(probe);
  const width = probe.getBoundingClientRect().width / probeLength;
  probe.remove();
  const isNarrow = matchMedia('(max-width: 640px)').matches; // as the style sheet hides time and source there
  const taken = 7 + (showsTime && !isNarrow ? 14 : 0) + (hasSources && !isNarrow ? 12 : 0) + 1;
  return width === 0 ? 80 : Math.max(10, Math.floor(element.clientWidth / width) - taken);
}
