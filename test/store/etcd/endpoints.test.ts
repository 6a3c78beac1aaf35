import { expect, test, vi } from 'vitest';
import { Endpoints } from '../../../store/etcd/endpoints.ts';

test('a wall clock that is set back gives a repeated call no more time than it had', async () => {
  const endpoints = new Endpoints(['127.0.0.1:1', '127.0.0.1:2']);
  const wall = vi.spyOn(Date, 'now').mockReturnValue(1_800_000_000_000);
  const given: number[] = [];
  try {
    await endpoints.repeatable(async ({ options }) => {
      given.push(Number(options.deadline) - Date.now());
      if (given.length > 1) return;
      wall.mockReturnValue(1_800_000_000_000 - 3_600_000);
      throw new Error('14 UNAVAILABLE: No connection established');
    });
  } finally {
    wall.mockRestore();
    endpoints.close();
  }
  expect(given).toHaveLength(2);
  for (const ms of given) expect(ms).toBeLessThanOrEqual(4000);
});
