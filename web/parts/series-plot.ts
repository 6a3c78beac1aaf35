import UPlot from 'uplot';

interface PlotData {
  readonly times: readonly number[];
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[];
  readonly format: (value: number) => string;
  readonly range?: readonly [from: number, to: number] | undefined;
  readonly limit?: number | undefined;
  readonly marks?: readonly { readonly at: number; readonly label: string }[] | undefined;
  readonly group?: string | undefined;
}

export interface Plot {
  update: (data: PlotData) => void;
  destroy: () => void;
}

const height = 180;
const colours = ['--busy', '--warn', '--good', '--bad'] as const;
const dashes: readonly number[][] = [[], [5, 3], [1, 3], [8, 3, 1, 3]];

/** Draws lines into a box, in the colours of the page, as wide as the box is. */
export function createPlot(box: HTMLElement, first: PlotData): Plot {
  let data = first;
  let plot = draw();
  const again = (): void => {
    plot.destroy();
    plot = draw();
  };
  const watcher = new ResizeObserver(() => {
    if (box.clientWidth > 0) plot.setSize({ width: box.clientWidth, height });
  });
  watcher.observe(box);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', again);
  const theme = new MutationObserver(again);
  theme.observe(document.documentElement, { attributeFilter: ['data-theme'] });

  function draw(): UPlot {
    const colourOf = colourReader(box);
    const made = new UPlot(
      optionsOf(box, () => data, colourOf),
      valuesOf(data),
      box,
    );
    return made;
  }
  return {
    update(next) {
      data = next;
      plot.setData(valuesOf(next));
    },
    destroy() {
      watcher.disconnect();
      theme.disconnect();
      scheme.removeEventListener('change', again);
      plot.destroy();
    },
  };
}

function valuesOf({ times, lines }: PlotData): UPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])];
}

/** Reads a token as the colour that it has here and now: a canvas knows no variables. */
function colourReader(box: HTMLElement): (token: string) => string {
  return (token) => {
    const probe = document.createElement('span');
    probe.style.color = `var(${token})`;
    box.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

function optionsOf(box: HTMLElement, dataNow: () => PlotData, colourOf: (token: string) => string): UPlot.Options {
  const { lines, group } = dataNow();
  const axis = { stroke: colourOf('--quiet'), grid: { stroke: colourOf('--line'), width: 1 }, ticks: { show: false } };
  return {
    width: Math.max(200, box.clientWidth),
    height,
    legend: { show: false },
    cursor: { y: false, ...(group !== undefined && { sync: { key: group } }), drag: { x: false, y: false } },
    scales: {
      x: {
        range: (_plot, least, most): [number, number] => {
          const { range } = dataNow();
          return range === undefined ? [least, most] : [range[0], range[1]];
        },
      },
      y: {
        range: (_plot, _least, most): [number, number] => {
          const { limit } = dataNow();
          const top = Math.max(Number.isFinite(most) ? most : 0, limit ?? 0);
          return [0, top === 0 ? 1 : top * 1.08];
        },
      },
    },
    axes: [axis, { ...axis, size: 72, values: (_plot, splits) => splits.map((value) => dataNow().format(value)) }],
    series: [
      {},
      ...lines.map(({ label }, at) => ({
        label,
        stroke: colourOf(colours[at % colours.length] ?? '--busy'),
        width: 1.5,
        dash: dashes[at % dashes.length] ?? [],
        points: { show: false },
      })),
    ],
    hooks: {
      draw: [
        (plot) => {
          drawLimit(plot, dataNow().limit, colourOf('--bad'));
          for (const { at, label } of dataNow().marks ?? []) drawMark(plot, at, label, colourOf('--quiet'));
        },
      ],
    },
  };
}

function drawLimit(plot: UPlot, limit: number | undefined, colour: string): void {
  if (limit === undefined) return;
  const y = plot.valToPos(limit, 'y', true);
  const { left, width } = plot.bbox;
  stroke(plot, colour, left, y, left + width, y);
}

function drawMark(plot: UPlot, at: number, label: string, colour: string): void {
  const x = plot.valToPos(at, 'x', true);
  const { left, width, top, height: tall } = plot.bbox;
  if (x < left || x > left + width) return;
  stroke(plot, colour, x, top, x, top + tall);
  plot.ctx.fillStyle = colour;
  plot.ctx.fillText(label, x + 4, top + 12);
}

function stroke({ ctx }: UPlot, colour: string, fromX: number, fromY: number, toX: number, toY: number): void {
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(fromX, fromY);
  ctx.lineTo(toX, toY);
  ctx.stroke();
  ctx.restore();
}
