import type { ObjectOf } from '../../model.ts';
import type { Step } from '../../parts/steps.tsx';

type TemplateInstance = ObjectOf<'template_instance'>;
export type Child = TemplateInstance['children'][number];

/** Children by wave, the first wave first. */
export function wavesOf(children: readonly Child[]): readonly (readonly [wave: number, of: readonly Child[]])[] {
  return [...Map.groupBy(children, ({ wave }) => wave)].toSorted(([a], [b]) => a - b);
}

/** The waves of an instance as steps: one is done once all of it is up, and fails with any part of it. */
export function waveSteps(children: readonly Child[]): Step[] {
  return wavesOf(children).map(([, of], at) => ({ name: `Wave ${at + 1}`, status: statusOf(of), detail: upText(of) }));
}

function statusOf(of: readonly Child[]): Step['status'] {
  if (of.some(({ state }) => state === 'failed')) return 'failed';
  if (of.every(({ state }) => state === 'up')) return 'done';
  if (of.every(isToCome)) return 'waiting';
  return of.some((it) => it.state === 'starting' || isToCome(it)) ? 'running' : 'skipped';
}

/** Whether it is yet to be made or changed. */
function isToCome({ state }: Child): boolean {
  return state === 'waiting' || state === 'outdated';
}

function upText(of: readonly Child[]): string {
  return `${of.filter(({ state }) => state === 'up').length} of ${of.length}`;
}
