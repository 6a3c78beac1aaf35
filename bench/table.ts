import type { Goal, Result, Spread } from './measure.ts';

export type Row = Result & { bench: string; id: string };

/** Formats one result on several lines. */
export function describe({ unit, goal, raw, ours, ratio, met }: Result): string {
  const rows = [
    raw && `  raw    ${figures(raw)}  ${unit}`,
    `  ours   ${figures(ours)}  ${unit}`,
    ratio && `  ratio  ${figures(ratio)}`,
    goal && `  goal   ${asked(goal, unit, ratio !== undefined)}: ${met === true ? 'met' : 'missed'}`,
  ];
  return rows.filter((row) => row !== undefined).join('\n');
}

/** Formats all results as a table in Markdown: median (smallest–largest). */
export function table(rows: readonly Row[]): string {
  const lines = rows.map((row) => [
    row.id,
    row.what,
    row.raw === undefined ? '' : `${range(row.raw)} ${row.unit}`,
    `${range(row.ours)} ${row.unit}`,
    row.ratio === undefined ? '' : range(row.ratio),
    row.goal === undefined ? '' : asked(row.goal, row.unit, row.ratio !== undefined),
    row.met === undefined ? '' : row.met ? 'met' : 'missed',
  ]);
  const head = ['Goal', 'What', 'Raw', 'Ours', 'Ours ÷ raw', 'Asked', ''];
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function asked(goal: Goal, unit: string, hasRatio: boolean): string {
  const of = goal.of === 'ours' || !hasRatio ? ` ${unit}` : ' × raw';
  return 'atMost' in goal ? `≤ ${goal.atMost}${of}` : `≥ ${goal.atLeast.toLocaleString('en')}${of}`;
}

function range({ median, min, max }: Spread): string {
  return min === max ? short(median) : `${short(median)} (${short(min)}–${short(max)})`;
}

function figures({ median, min, max }: Spread): string {
  const parts = [
    ['median', median],
    ['min', min],
    ['max', max],
  ] as const;
  return parts.map(([name, figure]) => `${name} ${short(figure).padStart(7)}`).join('  ');
}

/** Formats a figure with three significant digits, or with all digits before the point. */
function short(figure: number): string {
  return Math.abs(figure) >= 100 ? Math.round(figure).toString() : Number(figure.toPrecision(3)).toString();
}
