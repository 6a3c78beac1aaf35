import { expect, test } from 'vitest';
import { parseNetwork } from '../../../agent/machine/load.ts';

test('traffic between containers is not counted as the machine’s', () => {
  const head = 'Inter-|   Receive\n face |bytes\n';
  const line = (name: string, received: number, sent: number): string =>
    `  ${name}: ${received} 1 0 0 0 0 0 0 ${sent} 1 0 0 0 0 0 0\n`;
  const text = `${head}${line('lo', 5, 5)}${line('eth0', 100, 200)}${line('br-1a', 7, 7)}${line('veth2', 7, 7)}${line('ens3', 1, 2)}`;
  expect(parseNetwork(text)).toEqual({ received: 101, sent: 202 });
});
