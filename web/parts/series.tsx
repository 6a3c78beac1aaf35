import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { exactTime } from './relative-time.ts';
import type { Plot } from './series-plot.ts';

export interface SeriesLine {
  readonly label: string;
  readonly values: readonly (number | null)[];
}

interface SeriesProps {
  readonly title: string;
  /** In seconds of the epoch, ascending; each line has a value for each of them. */
  readonly times: readonly number[];
  readonly lines: readonly SeriesLine[];
  readonly format: (value: number) => string;
  /** The first and last second that is shown; by default, those of the values. */
  readonly range?: readonly [from: number, to: number] | undefined;
  /** A line that the values should not reach, such as the memory of a server. */
  readonly limit?: number | undefined;
  /** Instants to mark, such as those of deployments. */
  readonly marks?: readonly { readonly at: number; readonly label: string }[] | undefined;
  /** Charts of one group share their cursor. */
  readonly group?: string | undefined;
}

const tableRows = 60;

/** Values over time as lines, and the same numbers as a table. What is missing is a hole. */
export function Series(props: SeriesProps): VNode {
  const { title, times, lines, format } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | undefined>(undefined);
  const [fault, setFault] = useState<string>();
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let isOver = false;
    import('./series-plot.ts').then(
      ({ createPlot }) => {
        if (isOver || box.current === null) return;
        plot.current = createPlot(box.current, latest.current);
      },
      (error: unknown) => setFault(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      isOver = true;
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [lines.map(({ label }) => label).join(' '), props.group]);
  useEffect(() => {
    plot.current?.update(props);
  }, [times.at(-1), times.length, props.range?.[0], props.range?.[1], props.limit, props.marks?.length]);
  return (
    <figure class="series" aria-label={title}>
      <figcaption class="row-apart">
        <span class="strong">{title}</span>
        <ul class="series-legend">
          {lines.map(({ label, values }, at) => (
            <li key={label}>
              <Sample at={at} />
              {lines.length > 1 && <span class="quiet">{label}</span>}
              <span class="numeric">{lastOf(values, format)}</span>
            </li>
          ))}
        </ul>
      </figcaption>
      {fault === undefined ? (
        <div class="series-plot" ref={box} aria-hidden="true" />
      ) : (
        <p class="tone-bad">The chart could not be loaded: {fault}</p>
      )}
      <details class="details small">
        <summary>The numbers as a table</summary>
        <Numbers times={times} lines={lines} format={format} title={title} />
      </details>
    </figure>
  );
}

function lastOf(values: readonly (number | null)[], format: (value: number) => string): string {
  const last = values.at(-1);
  return last === undefined || last === null ? '–' : format(last);
}

const dashes = ['', '5 3', '1 3', '8 3 1 3'] as const;

/** The dash of a line, so that lines differ without colour. */
function Sample({ at }: { readonly at: number }): VNode {
  const tone = ['tone-busy', 'tone-warn', 'tone-good', 'tone-bad'][at % 4] ?? '';
  return (
    <svg viewBox="0 0 20 4" width="20" height="4" class={tone} aria-hidden="true">
      <path d="M0 2h20" stroke="currentColor" stroke-width="2" stroke-dasharray={dashes[at % dashes.length] ?? ''} />
    </svg>
  );
}

function Numbers({ times, lines, format, title }: Pick<SeriesProps, 'times' | 'lines' | 'format' | 'title'>): VNode {
  const from = Math.max(0, times.length - tableRows);
  const shown = times.slice(from).map((second, by) => ({ second, at: from + by }));
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={`Numbers of ${title}`}>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {lines.map(({ label }) => (
              <th key={label} scope="col" class="end">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.toReversed().map(({ second, at }) => (
            <tr key={second}>
              <td class="table-primary">{exactTime(new Date(second * 1000).toISOString())}</td>
              {lines.map(({ label, values }) => {
                const value = values[at];
                return (
                  <td key={label} class="end" data-label={label}>
                    {value === null || value === undefined ? '–' : format(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
