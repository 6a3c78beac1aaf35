import { isIPv4 } from 'node:net';
import type { PortBackend } from '../publication.ts';

/** The chains of one agent. Several agents on one machine have their own. */
export interface Chains {
  /** Where a port leads. */
  ports: string;
  /** What must seem to come from the bridge for its answer to find back. */
  back: string;
  /** What may be forwarded to the instances. */
  pass: string;
  /** What instances may not reach at all. */
  guard: string;
  /** What instances may reach of the machine itself. */
  host: string;
  /** What must not come in by a bridge: it could not before loopback was made routable there. */
  loop: string;
}

/** What the names of chains begin with; the short name of their agent follows. */
export const chainPrefix: Chains = {
  ports: 'SETPOINT-PORTS-',
  back: 'SETPOINT-BACK-',
  pass: 'SETPOINT-PASS-',
  guard: 'SETPOINT-GUARD-',
  host: 'SETPOINT-HOST-',
  loop: 'SETPOINT-LOOP-',
};

/** An agent in the names of its chains: the first twelve letters and digits of the id of its server. */
export function shortOwner(owner: string): string {
  return owner.replaceAll(/[^0-9a-zA-Z]/g, '').slice(0, 12);
}

/** @param owner id of the agent's server, or its short form. */
export function chainsOf(owner: string): Chains {
  const short = shortOwner(owner);
  const { ports, back, pass, guard, host, loop } = chainPrefix;
  return {
    ports: ports + short,
    back: back + short,
    pass: pass + short,
    guard: guard + short,
    host: host + short,
    loop: loop + short,
  };
}

/** A bridge that instances are attached to. */
export interface Bridge {
  name: string;
  /** `172.18.0.0/16` or an address in it: what is attached to it. */
  subnet: string;
}

/** A published port with the instances that it leads to, each with its bridge; `undefined`: it is on none. */
export interface Publication {
  port: number;
  backends: readonly (PortBackend & { bridge: Bridge | undefined })[];
}

export type Table = 'raw' | 'filter' | 'nat';

/** One chain of ours: its rules in order, without the chain's name in front. */
export interface Chain {
  table: Table;
  name: string;
  rules: readonly string[];
  /** From where it is reached: built-in chain and condition. */
  jumps: readonly { from: string; condition: string; first: boolean }[];
}

export type Family = 'ipv4' | 'ipv6';

/** Where an operator says what instances may reach of the machine all the same; asked first, where it is there. */
export const operatorsHostChain = 'SETPOINT-USER';

/** The addresses at which clouds tell their machines credentials, and all others that are of one link only. */
const linkLocal: Readonly<Record<Family, readonly string[]>> = {
  ipv4: ['169.254.0.0/16'],
  ipv6: ['fe80::/10', 'fd00:ec2::254/128'],
};
const refusal: Readonly<Record<Family, string>> = { ipv4: 'icmp-port-unreachable', ipv6: 'icmp6-port-unreachable' };
const icmp: Readonly<Record<Family, string>> = { ipv4: 'icmp', ipv6: 'ipv6-icmp' };

/**
 * Keeps instances and builds from link-local addresses and from what listens on the machine: in every network of ours,
 * known by the names of the bridges, from before its first container. They reach published ports, which lead elsewhere
 * before they come here, a resolver, and the end of what the machine began.
 */
export function guardChains(chains: Chains, family: Family, operatorChain: string | undefined): Chain[] {
  return [
    {
      table: 'filter',
      name: chains.guard,
      rules: linkLocal[family].map((range) => `-d ${range} -i sp-+ -j REJECT --reject-with ${refusal[family]}`),
      jumps: [{ from: 'FORWARD', condition: '', first: true }],
    },
    {
      table: 'filter',
      name: chains.host,
      rules: [
        '-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN',
        `-p ${icmp[family]} -j RETURN`,
        '-p udp -m udp --dport 53 -j RETURN',
        '-p tcp -m tcp --dport 53 -j RETURN',
        ...(operatorChain === undefined ? [] : [`-j ${operatorChain}`]),
        '-p tcp -j REJECT --reject-with tcp-reset',
        `-j REJECT --reject-with ${refusal[family]}`,
      ],
      jumps: [{ from: 'INPUT', condition: '-i sp-+ ', first: true }],
    },
  ];
}

/**
 * The whole rule set of published ports. A connection to a port of this machine, from wherever, is led to one of its instances, each with
 * the same probability; connections that exist keep their instance, whatever changes here.
 */
export function ruleSet(
  chains: Chains,
  publications: readonly Publication[],
  bridges: readonly string[],
  operatorChain: string | undefined,
): Chain[] {
  const all = publications.flatMap(({ backends }) => backends);
  for (const name of [...bridges, ...all.flatMap(({ bridge }) => bridge?.name ?? [])]) assertName(name);
  return [
    {
      table: 'raw',
      name: chains.loop,
      // CVE-2020-8558: with route_localnet, who is on the bridge reaches what listens on 127.0.0.1 only.
      rules: bridges.map((name) => `-d 127.0.0.0/8 -i ${name} -j DROP`),
      jumps: [{ from: 'PREROUTING', condition: '', first: false }],
    },
    {
      table: 'filter',
      name: chains.pass,
      rules: publications.flatMap((one) => forwarding(one, operatorChain)),
      // Ahead of the engine's own chains, which drop what the engine did not publish itself.
      jumps: [{ from: 'FORWARD', condition: '', first: true }],
    },
    {
      table: 'nat',
      name: chains.ports,
      rules: publications.flatMap(destinations),
      jumps: [
        { from: 'PREROUTING', condition: '-m addrtype --dst-type LOCAL ', first: false },
        { from: 'OUTPUT', condition: '-m addrtype --dst-type LOCAL ', first: false },
      ],
    },
    {
      table: 'nat',
      name: chains.back,
      rules: all.flatMap((backend) => sources(backend)),
      jumps: [{ from: 'POSTROUTING', condition: '', first: false }],
    },
  ];
}

function destinations({ port, backends }: Publication): string[] {
  return backends.map((backend, index) => {
    const left = backends.length - index;
    const chance = left === 1 ? '' : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `;
    return `-p tcp -m tcp --dport ${checkedPort(port)} ${chance}-j DNAT --to-destination ${checkedAddress(backend)}:${checkedPort(backend.port)}`;
  });
}

/** What the operator put into DOCKER-USER holds for these connections too; who gets past it is let through. */
function forwarding({ port, backends }: Publication, operatorChain: string | undefined): string[] {
  const matches = [
    `-p tcp -m conntrack --ctstate ESTABLISHED -m conntrack --ctstate DNAT --ctorigdstport ${checkedPort(port)}`,
    ...backends.map(
      (backend) =>
        `-d ${checkedAddress(backend)}/32 -p tcp -m tcp --dport ${checkedPort(backend.port)} -m conntrack --ctstate DNAT --ctorigdstport ${port}`,
    ),
  ];
  return matches.flatMap((match) =>
    operatorChain === undefined ? [`${match} -j ACCEPT`] : [`${match} -j ${operatorChain}`, `${match} -j ACCEPT`],
  );
}

/** From 127.0.0.1, and from the instance's own network, an answer would not come by this machine. */
function sources(backend: PortBackend & { bridge: Bridge | undefined }): string[] {
  const to = `-d ${checkedAddress(backend)}/32 -p tcp -m tcp --dport ${checkedPort(backend.port)} -m conntrack --ctstate DNAT -j MASQUERADE`;
  const own = backend.bridge === undefined ? [] : [`-s ${backend.bridge.subnet} ${to}`];
  return [`-s 127.0.0.0/8 ${to}`, ...own];
}

/** These texts become lines of a rule file: nothing but what is checked here gets into one. */
function checkedAddress({ address }: PortBackend): string {
  if (!isIPv4(address)) throw new TypeError(`Cannot lead a port to ${JSON.stringify(address)}: no IPv4 address`);
  return address;
}

function checkedPort(port: number): number {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new TypeError(`Not a port: ${port}`);
  return port;
}

function assertName(name: string): void {
  if (!/^[A-Za-z0-9_.-]{1,15}$/.test(name)) throw new TypeError(`Not the name of a bridge: ${JSON.stringify(name)}`);
}
