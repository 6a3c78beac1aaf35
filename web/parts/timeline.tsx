import type { ComponentChildren, VNode } from 'preact';
import { Shape } from './shape.tsx';
import type { Shape as ShapeName } from './status-words.ts';
import { Time } from './time.tsx';

export interface TimelineEntry {
  readonly key: string;
  readonly at: string;
  readonly shape: ShapeName;
  readonly title: ComponentChildren;
  readonly detail?: ComponentChildren;
  /** Entries with one cause at one instant are one row. */
  readonly cause?: string | undefined;
}

/** What happened to an object, the newest first. */
export function Timeline({
  label,
  entries,
}: {
  readonly label: string;
  readonly entries: readonly TimelineEntry[];
}): VNode {
  if (entries.length === 0) return <p class="quiet">Nothing has happened yet.</p>;
  return (
    <ol class="timeline" aria-label={label}>
      {joined(entries).map(({ key, at, shape, title, detail, others }) => (
        <li key={key}>
          <Shape of={shape} />
          <div class="timeline-text">
            <div>
              {title}
              {others > 0 && <span class="quiet"> and {others} more of it</span>}
            </div>
            {detail !== undefined && detail !== '' && <div class="small quiet">{detail}</div>}
          </div>
          <span class="quiet small">
            <Time at={at} />
          </span>
        </li>
      ))}
    </ol>
  );
}

function joined(entries: readonly TimelineEntry[]): (TimelineEntry & { others: number })[] {
  const rows: (TimelineEntry & { others: number })[] = [];
  for (const entry of [...entries].sort((a, b) => Date.parse(b.at) - Date.parse(a.at))) {
    const last = rows.at(-1);
    if (last !== undefined && entry.cause !== undefined && last.cause === entry.cause && last.at === entry.at)
      last.others += 1;
    else rows.push({ ...entry, others: 0 });
  }
  return rows;
}
