import { expect, test } from 'vitest';
import { RequestFailed } from '../../../agent/transfer/bucket-request.ts';
import { Patience } from '../../../agent/transfer/patience.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';

const { signal } = new AbortController();
const trouble = new RequestFailed('passing', 's3.test was silent');
const hour = 3_600_000;

test('trouble of several parts at once is counted once, and what went well between two troubles is not', async () => {
  const clock = new FakeClock();
  const patience = new Patience(clock, () => 1);
  const bearing = [1, 2].map((part) => patience.bear(part, 1, 0, trouble, signal));
  await clock.advance(1000);
  await Promise.all(bearing);
  await clock.advance(9000);
  patience.recovered(1);
  await clock.advance(10_000);
  patience.recovered(2);
  await clock.advance(50 * hour);
  expect(patience.leftMs).toBe(hour - 20_000);
  const again = patience.bear(1, 1, 0, trouble, signal);
  await clock.advance(hour - 20_000);
  await again;
  expect(patience.leftMs).toBe(0);
  await expect(patience.bear(1, 2, 0, trouble, signal)).rejects.toMatchObject({ code: 'transfer_failed' });
});

test('pauses double from half a second to half a minute, and jitter shortens them by up to half', async () => {
  const pauses: number[] = [];
  for (const random of [0, 1])
    for (const tries of [1, 2, 3, 7, 8, 1000]) {
      const clock = new FakeClock();
      const bearing = new Patience(clock, () => random).bear(1, tries, 0, trouble, signal);
      await settle();
      await clock.step(hour);
      await bearing;
      pauses.push(clock.monotonic());
    }
  expect(pauses).toEqual([250, 500, 1000, 15_000, 15_000, 15_000, 500, 1000, 2000, 30_000, 30_000, 30_000]);
});

test('a refusal of the control plane that is final is thrown as it is, and others are told without addresses', async () => {
  const patience = new Patience(new FakeClock(), () => 0);
  const final = new RuntimeFailure('interrupted', 'The backup was cancelled', { retryable: false });
  await expect(patience.bear(1, 1, 0, final, signal)).rejects.toBe(final);
  const clock = new FakeClock();
  const impatient = new Patience(clock, () => 1);
  const error = new Error('no answer from https://s3.test/key?X-Amz-Signature=12ab');
  const first = impatient.bear(1, 1, 0, error, signal);
  await clock.advance(hour);
  await first;
  await expect(impatient.bear(1, 2, 0, error, signal)).rejects.toMatchObject({
    code: 'transfer_failed',
    message: expect.stringMatching(/^The control plane gives no address: no answer from …\. It was tried again/),
  });
});
