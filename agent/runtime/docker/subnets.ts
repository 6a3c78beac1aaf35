import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { BlockList } from 'node:net';

/** First of the ranges: 4096 networks of 254 addresses, apart from those that the engine assigns itself. */
const first = [10, 208] as const;
const count = 4096;

/**
 * Yields address ranges for a network when the engine has none left; it has about thirty. Leaves out ranges that this
 * machine has a route to; another network may still have one of the others. The order depends only on the name.
 */
export async function* freeSubnets(name: string): AsyncGenerator<string> {
  const routed = await routes();
  const start = createHash('sha256').update(name).digest().readUInt32BE(0);
  for (let n = 0; n < count; n++) {
    const index = (start + n) % count;
    const base = `${first[0]}.${first[1] + (index >> 8)}.${index & 255}`;
    if (!routed.check(`${base}.1`)) yield `${base}.0/24`;
  }
}

/** Returns the destinations in the kernel's routing table, without the default route. */
async function routes(): Promise<BlockList> {
  const table = await readFile('/proc/net/route', 'utf8').catch(() => '');
  const found = new BlockList();
  for (const line of table.split('\n').slice(1)) {
    const [, destination = '', , , , , , mask = ''] = line.split('\t');
    const bits = octets(mask).reduce((sum, octet) => sum + octet.toString(2).replaceAll('0', '').length, 0);
    if (bits > 0) found.addSubnet(octets(destination).join('.'), bits, 'ipv4');
  }
  return found;
}

/** Parses an address, which the kernel writes in the byte order of the machine. */
function octets(hex: string): number[] {
  return [...Buffer.from(hex, 'hex')].toReversed();
}
