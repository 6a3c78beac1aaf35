import type { Application, Project } from '../../model.ts';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import type { Shape } from '../../parts/status-words.ts';
import { waitsFor } from '../../frame/waits-for.ts';

/** What of a project needs a look, in words. */
export interface ProjectState {
  readonly shape: Shape;
  readonly text: string;
}

/** The worst state of a project's applications: the one that it is about is named, with the cause. */
export function stateOf(project: Project, applications: readonly Application[]): ProjectState {
  if (project.status === 'deleting') return { shape: 'gone', text: 'Being deleted' };
  if (applications.length === 0) return { shape: 'idle', text: 'Nothing runs here yet' };
  const looks = applications.map((it) => ({ it, look: lookOf('application', it) }));
  const worst = shapesByUrgency
    .map((shape) => looks.find(({ look }) => look.shape === shape))
    .find((found) => found !== undefined);
  if (worst === undefined) return { shape: 'idle', text: '' };
  const { shape, word } = worst.look;
  if (shape === 'good') return { shape, text: 'All running' };
  if (shape === 'idle') return { shape, text: applications.length === 1 ? word : 'Nothing needs a look' };
  const cause = waitsFor(worst.it);
  return { shape, text: `${worst.it.name}: ${word.toLowerCase()}${cause === '' ? '' : `, ${cause}`}` };
}

/** How urgent a project is; the smallest number first. */
export function urgencyOf({ shape }: ProjectState): number {
  return shapesByUrgency.indexOf(shape);
}
