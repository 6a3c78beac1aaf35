import { expect, test } from 'vitest';
import { hasCode, meaningOf } from '../../../controllers/rollout/failures.ts';

test('a failure that waiting does not cure is fatal, and one that has a remedy names it', () => {
  expect(meaningOf({ code: 'port_taken' })).toEqual({
    isFatal: true,
    remedy: 'free the port on its server, or change exposed_port',
  });
  expect(meaningOf({ code: 'no_space' })).toEqual({ remedy: 'free space on the disk of its server' });
});

test.each(['exited', 'of_tomorrow', 'toString', '__proto__'])('the code %s means nothing', (code) => {
  expect(meaningOf({ code })).toEqual({});
});

test('a failure has its code alone', () => {
  expect(hasCode({ code: 'exited' }, 'exited')).toBe(true);
  expect(hasCode({ code: 'exited' }, 'unhealthy')).toBe(false);
  expect(hasCode(undefined, 'exited')).toBe(false);
});
