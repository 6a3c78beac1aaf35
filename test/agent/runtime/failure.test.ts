import { expect, test } from 'vitest';
import { failureOf } from '../../../agent/runtime/docker/failure.ts';

test.each([
  'failed to register layer: Error processing tar file(exit status 1): write /hello: no space left on device',
  'write /var/lib/docker/tmp/GetImageBlob1234: no space left on device',
])('a pull that the disk of the engine does not take is reported as that: %s', (text) => {
  const fallback = { code: 'image_pull_failed', attempted: 'Cannot pull image x', codes: ['no_space'] } as const;
  expect(failureOf(text, true, fallback)).toMatchObject({
    code: 'no_space',
    retryable: true,
    message: `Cannot pull image x: ${text}`,
  });
});
