import { expect, test } from 'vitest';
import { parseConfig } from '../../cli/parse-config.ts';
import { ServerConfig } from '../../cli/server-config.ts';

const hosts = (given: object) => parseConfig(ServerConfig, given).allowedHosts;

test('names that are answered follow from the addresses of the installation and the setting', () => {
  expect(hosts({})).toBeUndefined();
  expect(hosts({ listen: '0.0.0.0:7070' })).toBeUndefined();
  expect(hosts({ publicUrl: 'https://setpoint.example.com:8443', internalUrl: 'http://replica-1:7070' })).toEqual([
    'setpoint.example.com',
    'replica-1',
  ]);
  expect(hosts({ publicUrl: 'https://a.example.com', allowedHosts: 'b.example.com, c.example.com' })).toEqual([
    'b.example.com',
    'c.example.com',
    'a.example.com',
  ]);
  expect(hosts({ allowedHosts: '*' })).toEqual(['*']);
});

test('networks are addresses or ranges', () => {
  const config = parseConfig(ServerConfig, { metricsFrom: '192.0.2.1,10.0.0.0/8, ::1,fc00::/7' });
  expect(config.metricsFrom).toEqual(['192.0.2.1', '10.0.0.0/8', '::1', 'fc00::/7']);
  expect(parseConfig(ServerConfig, {}).metricsFrom).toBeUndefined();
  for (const [field, flag] of [
    ['metricsFrom', '--metrics-from'],
    ['trustedProxies', '--trusted-proxies'],
  ] as const)
    for (const wrong of ['proxy.example', '10.0.0.0/33', '10.0.0/8'])
      expect(() => parseConfig(ServerConfig, { [field]: wrong })).toThrow(`${flag}: must be addresses or CIDR ranges`);
});
