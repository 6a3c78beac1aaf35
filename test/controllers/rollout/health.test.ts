import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { healthOf } from '../../../controllers/rollout/health.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { object } from '../../harness/objects.ts';
import { serviceSpec } from '../../harness/wire-items.ts';

const version = randomUUID();

interface Given {
  report?: Partial<ObservedOf<'assignment'>>;
  desired?: Partial<DesiredOf<'assignment'>>;
  /** Its report is on an earlier record. */
  isOutdated?: boolean;
  deleting?: boolean;
}

const instance = (slot: number, { report, desired, isOutdated = false, deleting = false }: Given = {}) =>
  object(
    'assignment',
    { version, run: 'running', spec: serviceSpec({ slot }), ...desired },
    {
      generation: 2,
      observedGeneration: isOutdated ? 1 : 2,
      deleting,
      ...(report !== undefined && {
        observed: { phase: 'running', ready: false, stable: false, restarts: 0, crash_loop: false, ...report },
      }),
    },
  );

const ready = { ready: true };
const stable = { ready: true, stable: true };
const exited = { code: 'exited', message: 'The process exited with code 1' };
const taken = { code: 'port_taken', message: 'Port 80 is taken' };

const health = (replicas: number, ...all: Given[]) =>
  healthOf(
    all.map((given, slot) => instance(slot, given)),
    version,
    replicas,
  );

describe('the instances of a version', () => {
  it.each<[string, number, Given[], { ready: number; lacking: number; isStable: boolean }]>([
    ['are not there yet', 2, [], { ready: 0, lacking: 2, isStable: false }],
    ['are not reported yet', 1, [{}], { ready: 0, lacking: 1, isStable: false }],
    ['are ready, but not for long', 1, [{ report: ready }], { ready: 1, lacking: 0, isStable: false }],
    ['are stable', 2, [{ report: stable }, { report: stable }], { ready: 2, lacking: 0, isStable: true }],
    ['are stable in part', 2, [{ report: stable }, { report: ready }], { ready: 2, lacking: 0, isStable: false }],
    ['are stable, but too few', 2, [{ report: stable }], { ready: 1, lacking: 1, isStable: false }],
    ['are more than desired', 1, [{ report: stable }, { report: {} }], { ready: 1, lacking: 0, isStable: true }],
    ['are not desired at all', 0, [], { ready: 0, lacking: 0, isStable: true }],
    [
      'were stable before their record changed',
      1,
      [{ report: stable, isOutdated: true }],
      { ready: 0, lacking: 1, isStable: false },
    ],
    [
      'are being stopped',
      1,
      [{ report: stable, desired: { run: 'stopped' } }],
      { ready: 0, lacking: 1, isStable: false },
    ],
    ['are being deleted', 1, [{ report: stable, deleting: true }], { ready: 0, lacking: 1, isStable: false }],
    [
      'are of another version',
      1,
      [{ report: stable, desired: { version: randomUUID() } }],
      { ready: 0, lacking: 1, isStable: false },
    ],
  ])('%s', (_, replicas, given, expected) => {
    expect(health(replicas, ...given)).toMatchObject(expected);
  });

  it('are covered by ready ones beyond them, as far as they lack, and are no success by that', () => {
    expect(health(1, { report: {} }, { report: stable })).toMatchObject({
      ready: 0,
      covering: 1,
      lacking: 1,
      stable: 0,
      isStable: false,
    });
    expect(health(1, { report: {} }, { report: stable }, { report: stable }).covering).toBe(1);
    expect(health(1, { report: stable }, { report: stable }).covering).toBe(0);
    expect(health(1, { report: {} }, { report: stable, isOutdated: true }).covering).toBe(0);
    expect(health(1, { report: {} }, { report: stable, desired: { run: 'stopped' } }).covering).toBe(0);
    expect(health(1, { report: {} }, { report: stable, desired: { version: randomUUID() } }).covering).toBe(0);
    expect(health(1, { report: {} }, { report: { phase: 'succeeded' } }).covering).toBe(0);
  });

  it('keep exiting if one of them does', () => {
    const loop: Given = { report: { crash_loop: true, error: exited } };
    expect(health(2, { report: stable }, loop).isCrashLooping).toBe(true);
    expect(health(2, { report: stable }, { ...loop, isOutdated: true }).isCrashLooping).toBe(false);
    expect(health(1, { report: stable }, loop).isCrashLooping).toBe(false);
  });

  it('have what is reported of them now, and apart from that what waiting does not cure', () => {
    const { errors, failures } = health(
      4,
      { report: { error: exited } },
      { report: { error: taken } },
      { report: { error: taken }, isOutdated: true },
      { report: { phase: 'failed', error: exited } },
    );
    expect(errors).toEqual([exited, taken, exited]);
    expect(failures.map(({ failure }) => failure)).toEqual([taken, exited]);
    expect(failures.map(({ of }) => of.desired.spec)).toMatchObject([{ slot: 1 }, { slot: 3 }]);
  });
});
