import { expect, it } from 'vitest';
import { parseConfig } from '../../cli/parse-config.ts';
import { ServerConfig } from '../../cli/server-config.ts';

it('rates are set as so many in a minute and at once, and 0 switches one off', () => {
  const { rateLimit, heavyRateLimit, codeRateLimit, streamsPerUser } = parseConfig(ServerConfig, {
    rateLimit: '600,50',
    heavyRateLimit: '30',
    codeRateLimit: '0',
    streamsPerUser: '0',
  });
  expect({ rateLimit, heavyRateLimit, streamsPerUser }).toEqual({
    rateLimit: { perMinute: 600, burst: 50 },
    heavyRateLimit: { perMinute: 30, burst: 30 },
    streamsPerUser: 0,
  });
  expect(codeRateLimit.perMinute).toBe(0);
  const usual = parseConfig(ServerConfig, {});
  expect([usual.rateLimit, usual.streamsPerUser]).toEqual([{ perMinute: 6000, burst: 1000 }, 200]);
  for (const wrong of ['', 'x', '-1', '1,', '6,0', '1.5'])
    expect(() => parseConfig(ServerConfig, { rateLimit: wrong }), wrong).toThrow('--rate-limit: must be PER_MINUTE');
});
