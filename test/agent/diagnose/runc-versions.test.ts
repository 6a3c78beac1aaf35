import { expect, test } from 'vitest';
import { judgeRunc } from '../../../agent/diagnose/runc-versions.ts';

test.each([
  ['1.0.0-rc10', 'bad'],
  ['1.0.3', 'bad'],
  ['1.1.11', 'bad'],
  ['1.1.12', 'bad'],
  ['1.1.15', 'bad'],
  ['1.2.7', 'bad'],
  ['1.2.8', 'good'],
  ['1.2.9', 'good'],
  ['1.3.0', 'bad'],
  ['1.3.2', 'bad'],
  ['1.3.3', 'good'],
  ['1.4.0-rc.1', 'bad'],
  ['1.4.0-rc.2', 'bad'],
  ['1.4.0-rc.3', 'good'],
  ['1.4.0', 'good'],
  ['v1.4.2', 'good'],
  ['1.5.0-rc.1', 'good'],
  ['2.0.0', 'good'],
  ['1.1.7-0ubuntu1~22.04.9', 'unknown'],
  ['1.1.5+ds1-1+deb12u1', 'unknown'],
  ['1.3.3-0ubuntu1', 'good'],
  ['1.2.5-rc.1', 'bad'],
  ['', 'unknown'],
  ['unknown', 'unknown'],
])('runc %j is %s', (version, is) => {
  expect(judgeRunc(version).is).toBe(is);
});

test('the oldest versions have both faults, later ones those of the masks alone', () => {
  expect(judgeRunc('1.1.11')).toMatchObject({ faults: expect.stringMatching(/CVE-2024-21626.*CVE-2025-31133/) });
  expect(judgeRunc('1.1.12')).toMatchObject({ faults: expect.not.stringContaining('CVE-2024') });
});
