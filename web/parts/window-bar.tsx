import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Field } from './field.tsx';
import { exactTime } from './relative-time.ts';
import { Time } from './time.tsx';
import { holesBetween, localText, movedWithin, nearestWithin } from './window-times.ts';
import type { Span } from './window-times.ts';

interface WindowBarProps {
  readonly label: string;
  /** The spans that can be chosen from, the earliest first. */
  readonly spans: readonly Span[];
  /** Instants that are marked, such as those of backups. */
  readonly marks?: readonly number[] | undefined;
  readonly value: number;
  readonly onChange: (at: number) => void;
}

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/**
 * A bar of time on which an instant is picked. Arrows move it by a minute, with Shift by an hour, PageUp and PageDown by a
 * day; what is in a hole cannot be picked. The instant can be typed beside it.
 */
export function WindowBar({ label, spans, marks = [], value, onChange }: WindowBarProps): VNode | null {
  const [first, last] = [spans[0], spans.at(-1)];
  if (first === undefined || last === undefined) return null;
  const [start, end] = [first.from, Math.max(last.to, first.from + 1)];
  const share = (at: number): string => `${(((at - start) / (end - start)) * 100).toFixed(3)}%`;
  const pick = (at: number | undefined): void => {
    if (at !== undefined) onChange(Math.round(at));
  };
  const pickAt = (event: { readonly clientX: number; readonly currentTarget: HTMLElement }): void => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    pick(nearestWithin(spans, start + ((event.clientX - left) / Math.max(1, width)) * (end - start)));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = targetOf(event, spans, value);
    if (to === undefined) return;
    event.preventDefault();
    pick(to);
  };
  const holes = holesBetween(spans);
  return (
    <div class="window">
      <div
        class="window-bar"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={start}
        aria-valuemax={end}
        aria-valuenow={value}
        aria-valuetext={exactTime(new Date(value).toISOString())}
        onKeyDown={onKeyDown}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          pickAt(event);
        }}
        onPointerMove={(event) => {
          if (event.currentTarget.hasPointerCapture(event.pointerId)) pickAt(event);
        }}
      >
        {spans.map(({ from, to }) => (
          <span
            key={from}
            class="window-span"
            style={{ insetInlineStart: share(from), width: `calc(${share(to)} - ${share(from)})` }}
          />
        ))}
        {marks
          .filter((at) => at >= start && at <= end)
          .map((at) => (
            <span key={at} class="window-mark" style={{ insetInlineStart: share(at) }} />
          ))}
        <span class="window-thumb" style={{ insetInlineStart: share(value) }} />
      </div>
      <div class="row-apart small quiet">
        <Time at={new Date(start).toISOString()} />
        <Time at={new Date(end).toISOString()} />
      </div>
      {holes.length > 0 && (
        <ul class="small quiet" aria-label="Holes in the window">
          {holes.map(({ from, to }) => (
            <li key={from}>
              Hole from {exactTime(new Date(from).toISOString())} to {exactTime(new Date(to).toISOString())}: no instant
              in it can be picked
            </li>
          ))}
        </ul>
      )}
      <TypedInstant spans={spans} value={value} onChange={pick} />
    </div>
  );
}

function targetOf(event: KeyboardEvent, spans: readonly Span[], value: number): number | undefined {
  const step = event.shiftKey ? hourMs : minuteMs;
  switch (event.key) {
    case 'ArrowRight':
    case 'ArrowUp':
      return movedWithin(spans, value, step);
    case 'ArrowLeft':
    case 'ArrowDown':
      return movedWithin(spans, value, -step);
    case 'PageUp':
      return movedWithin(spans, value, dayMs);
    case 'PageDown':
      return movedWithin(spans, value, -dayMs);
    case 'Home':
      return spans[0]?.from;
    case 'End':
      return spans.at(-1)?.to;
    default:
      return undefined;
  }
}

interface TypedInstantProps {
  readonly spans: readonly Span[];
  readonly value: number;
  readonly onChange: (at: number) => void;
}

/** The instant as text in the reader's zone; what cannot be picked is said, and not taken. */
function TypedInstant({ spans, value, onChange }: TypedInstantProps): VNode {
  const [text, setText] = useState(localText(value));
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    setText(localText(value));
    setFault(undefined);
  }, [value]);
  const take = (next: string): void => {
    setText(next);
    const typed = Date.parse(next);
    const at = nearestWithin(spans, typed);
    // the ends of a span have fractions of a second, which the field leaves out
    if (Number.isNaN(typed) || at === undefined) setFault('Type a date and a time');
    else if (Math.abs(at - typed) >= secondMs) setFault('This instant is outside of the window');
    else onChange(at);
  };
  return (
    <Field label="Instant" help={`In your zone: ${exactTime(new Date(value).toISOString())}`} error={fault}>
      {(control) => (
        <input
          {...control}
          class="input input-auto"
          type="datetime-local"
          step={1}
          value={text}
          onInput={(event) => take(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}
