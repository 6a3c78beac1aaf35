import { expect, it } from 'vitest';
import { Certificates } from '../../../agent/ingress/certificates.ts';
import type { ShownCertificate } from '../../../agent/ingress/proxy.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';

const day = 86_400_000;
const hour = 3_600_000;

function open(
  clock: FakeClock,
  certificate: (host: string) => Promise<ShownCertificate>,
  why?: () => string | undefined,
) {
  const changed: string[] = [];
  const certificates = new Certificates({
    proxy: { certificate },
    clock,
    changed: (host) => changed.push(host),
    failureOf: () => Promise.resolve(why?.()),
  });
  return { certificates, changed };
}

it('says of a certificate that is not renewed in time that it ends soon, and why', async () => {
  const clock = new FakeClock();
  const begins = clock.now().getTime();
  const [begins_at, expires_at] = [begins, begins + 90 * day].map((time) => new Date(time).toISOString()) as [
    string,
    string,
  ];
  let failure: string | undefined;
  const { certificates } = open(
    clock,
    (host) => Promise.resolve({ host, begins_at, expires_at, issuer: 'an authority' }),
    () => failure,
  );
  await using _ = certificates;
  certificates.set(new Set(['one.test']), 443);
  const shown = () => certificates.of('one.test');
  await until('it is known', () => Promise.resolve(shown() !== undefined));
  expect(shown()).toEqual({ host: 'one.test', issuer: 'an authority', expires_at });
  failure = 'HTTP 429 - too many';
  await clock.advance(60 * day);
  certificates.set(new Set(['one.test']), 443);
  await until('its renewal failed', () => Promise.resolve(shown()?.renewal_error !== undefined));
  expect(shown()).toEqual({ host: 'one.test', issuer: 'an authority', expires_at, renewal_error: failure });
  await clock.advance(9 * day + hour);
  certificates.set(new Set(['one.test']), 443);
  await until('it ends soon', () => Promise.resolve(shown()?.ends_soon === true));
  expect(shown()?.renewal_error).toBe(failure);
});

it('looks at four hosts at once, and at another one although an authority is slow', async () => {
  const clock = new FakeClock();
  const waiting = new Map<string, PromiseWithResolvers<ShownCertificate>>();
  let most = 0;
  const { certificates } = open(clock, (host) => {
    const it = Promise.withResolvers<ShownCertificate>();
    waiting.set(host, it);
    most = Math.max(most, waiting.size);
    return it.promise.finally(() => waiting.delete(host));
  });
  await using _ = certificates;
  const slow = Array.from({ length: 10 }, (_, n) => `slow-${n}.test`);
  certificates.set(new Set(slow), 443);
  await until('four are asked', () => Promise.resolve(waiting.size === 4));
  const all = new Set([...slow, 'new.test']);
  certificates.set(all, 443);
  let looks = 0;
  while (certificates.of('new.test') === undefined && (looks += 1) < 20) {
    await until('one is asked', () => Promise.resolve(waiting.size > 0));
    const [host, asked] = [...waiting].at(-1) ?? [];
    asked?.resolve({ host: host ?? '', issuer: 'an authority' });
    await until('it is known', () => Promise.resolve(!waiting.has(host ?? '')));
  }
  expect(certificates.of('new.test')).toBeDefined();
  expect(most).toBe(4);
  for (const [host, asked] of waiting) asked.resolve({ host });
});
