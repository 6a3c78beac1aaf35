import { describe, expect, test } from 'vitest';
import type { World } from '../../../agent/service/plan.ts';
import type { ServiceItem } from '../../../agent/service/memory.ts';
import {
  decide,
  desire,
  forget,
  initialState,
  learn,
  stepDone,
  stepFailed,
  volumeAppeared,
  withdraw,
} from '../../../agent/service/state.ts';
import { imageKey } from '../../../agent/service/drift.ts';
import { nameOf, service } from '../agent-world.ts';

const item = (changes: Parameters<typeof service>[0] = {}, spec: Parameters<typeof service>[1] = {}): ServiceItem =>
  service({ id: '7c000000-0000-4000-8000-000000000000', ...changes }, spec) as ServiceItem;
const failure = { step: 'create', code: 'create_failed', message: '', final: true, tries: 3, until: 0 } as const;
const image = { id: 'sha256:web', digest: 'sha256:aaaa' };

describe('a new desired state', () => {
  const desired = item();
  const { state } = desire(initialState, desired);
  const known = withdraw(learn(state, { failure, created: 'c1', image: { ...image, of: imageKey(desired) } }), 'c1');

  test('that asks for the same work keeps what is known', () => {
    expect(desire(known, desired)).toEqual({ state: known, isSameWork: true });
    const later = { ...desired, generation: desired.generation + 1 };
    expect(desire(known, later)).toEqual({ state: { ...known, desired: later }, isSameWork: true });
  });

  test('that only names the image that was found is the same work, for which that image is resolved', () => {
    const named = { ...desired, spec: { ...desired.spec, image_digest: image.digest } };
    const next = desire(known, named);
    expect(next.isSameWork).toBe(true);
    expect(next.state.memory).toMatchObject({ failure, image: { ...image, of: imageKey(named) } });
  });

  test('that asks for other work forgets failures and withdrawals, and remembers what exists', () => {
    const next = desire(known, { ...desired, spec_hash: 'another' });
    expect(next.isSameWork).toBe(false);
    expect(next.state.memory).toMatchObject({ failure: undefined, created: 'c1' });
    expect(next.state.withdrawn.size).toBe(0);
  });
});

test('a failure ends with the success of the same step only', () => {
  const state = learn(initialState, { failure });
  expect(stepDone(state, { do: 'ensureNetwork' }).memory.failure).toBe(failure);
  expect(stepDone(state, { do: 'create', name: 'web' }).memory.failure).toBeUndefined();
});

test('an image that a container could not be made of, as it is gone, is resolved again', () => {
  const state = learn(initialState, { image: { ...image, of: 'key' } });
  const gone = { ...failure, code: 'image_not_found' } as const;
  expect(stepFailed(state, { do: 'create', name: 'web' }, gone).memory).toMatchObject({ image: undefined });
  expect(stepFailed(state, { do: 'resolveImage' }, gone).memory.image?.of).toBe('key');
  expect(stepFailed(state, { do: 'create', name: 'web' }, failure).memory.image?.of).toBe('key');
});

test('a volume that is there again ends only the failure of a service that mounts it', () => {
  const mounts = [{ type: 'volume' as const, volume: 'data', path: '/data', read_only: false, copy: true }];
  const state = learn(desire(initialState, item({}, { mounts })).state, { failure: { ...failure, code: 'data_lost' } });
  expect(volumeAppeared(state, 'data').memory.failure).toBeUndefined();
  expect(volumeAppeared(state, 'other')).toBe(state);
  const another = learn(state, { failure });
  expect(volumeAppeared(another, 'data')).toBe(another);
});

test('a change from outside is one event for each container, until that is gone', () => {
  const desired = item();
  const { state: before } = desire(initialState, desired);
  const container = { id: 'c1', name: nameOf(desired), labels: {}, state: 'running', imageId: image.id } as const;
  const world: World = {
    desired,
    memory: before.memory,
    withdrawn: before.withdrawn,
    drains: before.drains,
    tombstone: undefined,
    complete: true,
    networkReady: true,
    ready: false,
    mayWrite: true,
    isFollowed: true,
    actual: [{ container, detail: undefined, origin: 'named' }],
    can: { restart: true, hold: true },
    now: { monotonic: 0, wall: new Date(0) },
  };
  const first = decide(before, world);
  expect(first.event).toMatchObject({ reason: 'ContainerChanged', drift: true });
  const second = decide(first.state, world);
  expect(second.event).toBeUndefined();
  const again = decide(forget(second.state, 'c1'), world);
  expect(again.event?.reason).toBe('ContainerChanged');
});
