import { expect, test } from 'vitest';
import { limits } from '../../../controllers/runtime/limits.ts';
import { signingKeyRotation } from '../../../controllers/signing-keys/signing-keys.ts';
import type { Guard } from '../../../store/store.ts';
import { openRig } from '../runtime/rig.ts';

test('the leader looks at the keys every hour under its fence, also after a look that failed', async () => {
  const fences: Guard[] = [];
  const background = signingKeyRotation(async (fence) => {
    fences.push(fence);
    if (fences.length === 1) throw new Error('Store did not answer');
    return fences.length === 2 ? 'rotated' : 'kept';
  });
  await using rig = await openRig({ background: [background] });
  await rig.rest();
  expect(fences).toHaveLength(1);
  await rig.clock.advance(limits.rotation.signingKeysEveryMs);
  await rig.clock.advance(limits.rotation.signingKeysEveryMs);
  expect(fences).toHaveLength(3);
  expect(new Set(fences.map(({ key, is }) => `${key} ${is}`)).size).toBe(1);
  expect(fences[0]).toMatchObject({ is: 'at' });
});
