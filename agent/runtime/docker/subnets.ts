import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { BlockList } from 'node:net';

/** Networks of 254 addresses, beside those that the engine gives out itself. */
const first = [10, 208] as const;
const count = 4096;

/**
 * Address ranges for a network for which the engine has none left: it has about thirty. Those that this machine has a
 * route to are left out; another network may still have one of them. The order depends on the name only.
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

/** What the routing table of the kernel leads to, without the default route. */
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

/** The kernel writes addresses in the order of its own bytes. */
function octets(hex: string): number[] {
  return [...Buffer.from(hex, 'hex')].toReversed();
}
