import { expect, it } from 'vitest';
import { faultOfAddress } from '../../../controllers/provision/address.ts';

const reason = (address: string, machine: string, allowPlainHttp = false) =>
  faultOfAddress(address, { machine, allowPlainHttp })?.reason;

it.each([
  ['https://setpoint.test/default', '192.0.2.7', undefined],
  ["https://setpoint.test/'default'", '192.0.2.7', 'AddressUnusable'],
  ['http://127.0.0.1:7070/default', '192.0.2.7', 'AddressLoopback'],
  ['https://localhost:7070/default', '192.0.2.7', 'AddressLoopback'],
  ['http://[::1]:7070/default', 'one.test', 'AddressLoopback'],
  ['http://127.0.0.1:7070/default', '127.0.0.1', undefined],
  ['http://127.0.0.1:7070/default', '::1', undefined],
  ['http://127.0.0.1.test/default', '192.0.2.7', 'PlainHttp'],
  ['http://10.0.0.1:7070/default', '10.0.0.2', 'PlainHttp'],
])('the address %s for the machine %s: %s', (address, machine, expected) => {
  expect(reason(address, machine)).toBe(expected);
});

it('plain http is given where it is allowed, and an address of the own machine is not', () => {
  expect(reason('http://10.0.0.1:7070/default', '10.0.0.2', true)).toBeUndefined();
  expect(reason('http://127.0.0.1:7070/default', '10.0.0.2', true)).toBe('AddressLoopback');
});

it('the remedies name the settings', () => {
  const none = { machine: '192.0.2.7', allowPlainHttp: false };
  expect(faultOfAddress('http://127.0.0.1:7070/default', none)?.remedy).toContain('SETPOINT_PUBLIC_URL');
  expect(faultOfAddress('http://10.0.0.1/default', none)?.remedy).toContain('SETPOINT_ALLOW_PLAIN_HTTP=true');
});
