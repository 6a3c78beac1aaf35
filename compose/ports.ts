import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import type { Node } from './node.ts';
import { accepted, readKeys, readList, readMatching, readText, readWhole, withoutEffect } from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

type Port = PlainComposedService['ports'][number];

/** Most ports of one range. */
const maxRange = 64;
const addresses = new Set(['', '0.0.0.0', '::', '[::]', '*']);

/** Reads `ports`: `CONTAINER`, `HOST:CONTAINER`, ranges of both, and the long form. */
export function readPorts(node: Node, found: Found): Port[] {
  return readList(node, found).flatMap((it) => (it.type === 'map' ? longPort(it, found) : shortPorts(it, found)));
}

/** Reads `expose`: ports inside the network. */
export function readExposed(node: Node, found: Found): Port[] {
  return readList(node, found).flatMap((it) => {
    const text = readText(it, found);
    const ports = text === undefined ? undefined : range(text.replace(/\/tcp$/, ''));
    if (ports !== undefined) return ports.map((port) => ({ port }));
    if (text !== undefined) found.findings.error(it, onlyTcp(text) ?? 'must be a port such as 8080');
    return [];
  });
}

function shortPorts(node: Node, found: Found): Port[] {
  const rule = 'must be a port such as 8080 or 8080:80';
  const text = readText(node, found, rule);
  if (text === undefined) return [];
  const [, address = '', host, inner = '', protocol = 'tcp'] =
    /^(?:(\[[\da-f:.]*\]|[\d.]*):)?(?:([\d-]*):)?([\d-]+)(?:\/([a-z]+))?$/i.exec(withAddress(text)) ?? [];
  if (protocol.toLowerCase() !== 'tcp') return fault(node, found, onlyTcp(text) ?? rule);
  const ports = range(inner);
  const asked = host === '' ? undefined : host;
  const published = asked === undefined ? undefined : range(asked);
  if (ports === undefined || (asked !== undefined && published === undefined)) return fault(node, found, rule);
  if (published !== undefined) return pairs(node, found, { ports, published, address });
  found.findings.warn(node, unpublished);
  return ports.map((port) => ({ port }));
}

/** Ports of the container with those of the server that lead to them. */
function pairs(
  node: Node,
  found: Found,
  { ports, published, address }: { ports: readonly number[]; published: readonly number[]; address: string },
): Port[] {
  if (ports.length > 1 && published.length !== ports.length)
    return fault(node, found, 'must have as many ports of the server as of the container');
  if (published.length > ports.length) found.findings.warn(node, firstOf(published));
  const isPublished = isAnywhere(address, node, found);
  return ports.map((port, index) => port_(port, isPublished ? published[index] : undefined));
}

/** `8080:80` has no address: the pattern expects one, or none, before each port of a server. */
function withAddress(text: string): string {
  return /^[\d-]*:[\d-]+(?:\/[a-z]+)?$/i.test(text) ? `:${text}` : text;
}

const unpublished =
  'names no port of the server: it is reached within its network only. Write 8080:80 to publish it at 8080';

function firstOf([first]: readonly number[]): string {
  return `leaves the choice of a port to Docker: here it is published at ${first}, the first of them`;
}

function isAnywhere(address: string, node: Node, { findings }: Found): boolean {
  if (addresses.has(address)) return true;
  findings.warn(
    node,
    `is not published, as Setpoint publishes ports at every address of a server and not at ${address} alone: it is reached within its network`,
  );
  return false;
}

function longPort(node: Node, found: Found): Port[] {
  const read: { target?: number | undefined; published?: string | undefined; address?: string | undefined } = {};
  const keys: Keys<Found> = {
    target: (it) => (read.target = readWhole(it, 1, 65_535, found)),
    published: (it) => (read.published = readMatching(it, /^\d{1,5}(-\d{1,5})?$/, 'must be a port or a range', found)),
    protocol: (it) => readMatching(it, /^tcp$/i, 'must be tcp: Setpoint publishes no other protocol', found),
    host_ip: (it) => (read.address = readText(it, found)),
    mode: withoutEffect('ports are published on the server of the instances'),
    name: accepted,
    app_protocol: withoutEffect('ports are published as they are'),
  };
  readKeys(node, keys, found);
  if (read.target === undefined) return fault(node, found, 'must have a target');
  if (read.published === undefined) {
    found.findings.warn(node, unpublished);
    return [{ port: read.target }];
  }
  const published = range(read.published) ?? [];
  const [publish] = published;
  if (publish === undefined)
    return fault(node, found, `must publish ports from 1 to 65535, and at most ${maxRange} of them`);
  if (published.length > 1) found.findings.warn(node, firstOf(published));
  return [port_(read.target, isAnywhere(read.address ?? '', node, found) ? publish : undefined)];
}

function port_(port: number, publish: number | undefined): Port {
  return publish === undefined ? { port } : { port, publish };
}

function fault(node: Node, { findings }: Found, rule: string): Port[] {
  findings.error(node, rule);
  return [];
}

function onlyTcp(text: string): string | undefined {
  return /\/(?:udp|sctp)$/i.test(text) ? 'must be tcp: Setpoint publishes no other protocol' : undefined;
}

/** The ports of `80` or `8000-8010`. */
function range(text: string): number[] | undefined {
  const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text) ?? [];
  const from = Number(first);
  const count = Number(last) - from + 1;
  if (first === '' || from < 1 || Number(last) > 65_535 || count < 1 || count > maxRange) return undefined;
  return Array.from({ length: count }, (_, index) => from + index);
}
