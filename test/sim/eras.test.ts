import { expect, test } from 'vitest';
import { presentHistory } from '../../controllers/gateway/history.ts';
import { World } from '../harness/world.ts';

test('each start of a replica begins an era, before it takes agents in', async () => {
  await using world = await World.create(1);
  const seen = new Set<string | undefined>();
  for (let n = 0; n < 3; n++) {
    const plane = world.startPlane();
    await world.until('it is there', () => plane.replica !== undefined);
    seen.add(await presentHistory(world.store));
    world.killPlane(plane);
  }
  expect(seen.size).toBe(3);
  expect(seen).not.toContain(undefined);
});
