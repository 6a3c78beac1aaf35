import type { VNode } from 'preact';

interface SparkProps {
  readonly label: string;
  /** The newest last; `null` is a hole. */
  readonly values: readonly (number | null)[];
  readonly format: (value: number) => string;
  readonly width?: number;
  /** As wide as its place. */
  readonly isWide?: boolean;
}

const height = 20;

/** A line as large as a word. It is read out as its last, least and most value. */
export function Spark({ label, values, format, width = 80, isWide = false }: SparkProps): VNode {
  const known = values.filter((value) => value !== null);
  const last = known.at(-1);
  if (last === undefined) return <span class="quiet small">no values yet</span>;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const text = `${label}: ${format(last)}, least ${format(least)}, most ${format(most)}`;
  return (
    <svg
      class={isWide ? 'spark spark-wide' : 'spark'}
      role="img"
      aria-label={text}
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      preserveAspectRatio="none"
    >
      {runsOf(values, width, least, most).map((points) => (
        <polyline key={points} points={points} />
      ))}
    </svg>
  );
}

/** The points of each run without a hole. */
function runsOf(values: readonly (number | null)[], width: number, least: number, most: number): string[] {
  const step = width / Math.max(1, values.length - 1);
  const span = most - least;
  const runs: string[][] = [[]];
  for (const [at, value] of values.entries())
    if (value === null) runs.push([]);
    else {
      const y = span === 0 ? height / 2 : height - 2 - ((value - least) / span) * (height - 4);
      runs.at(-1)?.push(`${(at * step).toFixed(1)},${y.toFixed(1)}`);
    }
  return runs.filter((run) => run.length > 0).map((run) => run.join(' '));
}

/** How much of something is used, as a bar with its words. */
export function Meter({
  label,
  used,
  total,
  format,
}: {
  readonly label: string;
  readonly used: number;
  readonly total: number;
  readonly format: (value: number) => string;
}): VNode {
  const share = total === 0 ? 0 : Math.min(1, used / total);
  const tone = share > 0.9 ? 'tone-bad' : share > 0.75 ? 'tone-warn' : 'tone-busy';
  return (
    <div class="meter">
      <div class="row-apart small">
        <span>{label}</span>
        <span class="numeric">
          {format(used)} of {format(total)} <span class="quiet">({Math.round(share * 100)} %)</span>
        </span>
      </div>
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class={tone} width={share * 100} height="8" fill="currentColor" />
      </svg>
    </div>
  );
}
