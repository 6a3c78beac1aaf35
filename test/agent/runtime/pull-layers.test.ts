import { expect, it } from 'vitest';
import { PullLayers } from '../../../agent/runtime/docker/pull-layers.ts';

const told = (id: string, status: string, current?: number, total?: number) => ({
  id,
  status,
  progressDetail: { ...(current !== undefined && { current }), ...(total !== undefined && { total }) },
});

it('adds up layers that are downloaded, that are there, and that still wait', () => {
  const layers = new PullLayers();
  layers.add(told('a', 'Already exists'));
  layers.add(told('b', 'Pulling fs layer'));
  layers.add(told('c', 'Pulling fs layer'));
  expect(layers.add(told('b', 'Downloading', 40, 100))).toEqual({
    layers: 3,
    layersDone: 1,
    layersPresent: 1,
    bytes: 40,
    totalBytes: undefined,
  });
  layers.add(told('b', 'Download complete'));
  layers.add(told('c', 'Extracting', 10, 30));
  expect(layers.add(told('b', 'Pull complete'))).toEqual({
    layers: 3,
    layersDone: 2,
    layersPresent: 1,
    bytes: 130,
    totalBytes: 130,
  });
});

it('knows no size of a layer that was too fast for the engine to tell', () => {
  const layers = new PullLayers();
  layers.add(told('a', 'Pulling fs layer'));
  layers.add(told('a', 'Download complete'));
  expect(layers.add(told('a', 'Pull complete'))).toEqual({
    layers: 1,
    layersDone: 1,
    layersPresent: 0,
    bytes: 0,
    totalBytes: undefined,
  });
});

it('takes nothing from lines that are about no layer', () => {
  const layers = new PullLayers();
  expect(layers.add({ status: 'Status: Downloaded newer image' })).toBeUndefined();
  expect(layers.add(told('a', 'Pulling from library/web'))).toBeUndefined();
});
