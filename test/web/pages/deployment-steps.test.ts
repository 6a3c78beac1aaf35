import { describe, expect, it } from 'vitest';
import { stepsOf } from '../../../web/pages/deployment/deployment-steps.ts';

const at = (second: number): string => new Date(1_800_000_000_000 + second * 1000).toISOString();
const deployment = {
  status: 'succeeded',
  queued_at: at(0),
  started_at: at(2),
  built_at: at(41),
  finished_at: at(50),
  progress: null,
  commit: 'abc',
} as const;
const states = (it: Parameters<typeof stepsOf>[0]): string[] =>
  stepsOf(it).map(({ name, status }) => `${name} ${status}`);

describe('the steps of a deployment', () => {
  it('have the times between its instants', () => {
    expect(stepsOf(deployment)).toEqual([
      { name: 'Queue', status: 'done', ms: 2000 },
      { name: 'Build', status: 'done', ms: 39_000 },
      { name: 'Roll out', status: 'done', ms: 9000 },
    ]);
  });

  it('show the one that runs, and how far it is', () => {
    const progress = { step: 'building', done: 2, total: 5, unit: 'steps', per_second: null };
    const building = { ...deployment, status: 'building', built_at: null, finished_at: null, progress } as const;
    expect(stepsOf(building)[1]).toEqual({
      name: 'Build',
      status: 'running',
      since: at(2),
      detail: 'building 2 of 5 steps',
    });
    expect(states(building)).toEqual(['Queue done', 'Build running', 'Roll out waiting']);
  });

  it('fail where it failed', () => {
    expect(states({ ...deployment, status: 'failed', built_at: null })).toEqual([
      'Queue done',
      'Build failed',
      'Roll out skipped',
    ]);
    expect(states({ ...deployment, status: 'failed' }).at(-1)).toBe('Roll out failed');
  });

  it('of one that was cancelled in the queue are none', () => {
    const cancelled = { ...deployment, status: 'cancelled', started_at: null, built_at: null } as const;
    expect(states(cancelled)).toEqual(['Queue skipped', 'Build skipped', 'Roll out skipped']);
  });
});
