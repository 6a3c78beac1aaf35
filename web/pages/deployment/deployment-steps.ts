import type { Deployment } from '../../model.ts';
import type { Step } from '../../parts/steps.tsx';

type Timed = Pick<
  Deployment,
  'status' | 'queued_at' | 'started_at' | 'built_at' | 'finished_at' | 'progress' | 'commit'
>;
const order = ['queued', 'building', 'deploying'] as const;

/**
 * The steps of a deployment, from the instants that the server noted: the queue, the build or the pull of the image, and
 * the rollout. A step after which none followed has the deployment's end as its own.
 */
export function stepsOf(it: Timed): Step[] {
  const names = ['Queue', it.commit === null ? 'Image' : 'Build', 'Roll out'];
  const begins = [it.queued_at, it.started_at, it.built_at];
  const at = order.findIndex((one) => one === it.status);
  // a deployment that has ended did so in the last step that had begun
  const last = at === -1 ? begins.reduce((found, one, index) => (one === null ? found : index), 0) : at;
  return names.map((name, index): Step => {
    const begin = begins[index] ?? null;
    const end = begins[index + 1] ?? (at === -1 ? it.finished_at : null);
    // an image that was there already was neither built nor pulled: all of the time is the rollout's
    if (it.status === 'succeeded' && it.built_at === null && it.started_at !== null && index > 0)
      return { name, status: 'done', ...(index === 2 && between(it.started_at, it.finished_at)) };
    if (index > last || begin === null) return { name, status: at === -1 ? 'skipped' : 'waiting' };
    if (index < last) return { name, status: 'done', ...between(begin, end) };
    if (at !== -1) return { name, status: 'running', since: begin, detail: progressOf(it) };
    if (it.status === 'succeeded') return { name, status: 'done', ...between(begin, end) };
    return { name, status: it.status === 'failed' ? 'failed' : 'skipped', ...between(begin, end) };
  });
}

function between(begin: string, end: string | null): { ms: number } | undefined {
  return end === null ? undefined : { ms: Math.max(0, Date.parse(end) - Date.parse(begin)) };
}

function progressOf({ progress }: Timed): string {
  if (progress === null) return '';
  const { step, done, total, unit } = progress;
  const words = step.replaceAll('_', ' ');
  return done === null || total === null ? words : `${words} ${done} of ${total} ${unit ?? ''}`.trim();
}
