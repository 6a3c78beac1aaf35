import { isIPv4 } from 'node:net';
import type { PortBackend } from './port-publisher.ts';

/** The kernel's rules as `iptables-save` shows them: lines by the name of their table. */
export type Present = ReadonlyMap<string, readonly string[]>;

/** Names of the chains of one agent. Each agent of a machine has its own chains. */
export interface Chains {
  /** Leads ports to instances. */
  ports: string;
  /** Makes connections seem to come from the bridge, so that their answers come back by this machine. */
  back: string;
  /** Accepts connections that are forwarded to instances. */
  pass: string;
  /** Accepts the same at the end of the operator's chain, which the engine always asks first. */
  early: string;
  /** Blocks addresses that instances may not reach at all. */
  guard: string;
  /** Decides what instances may reach on the machine itself. */
  host: string;
  /** Drops packets to loopback that come in by a bridge, which is possible once loopback is routable there. */
  loop: string;
  /** Blocks what steps of builds may not reach from the engine's own bridge. */
  steps: string;
  /** Decides what these may reach on the machine itself. */
  stepsHost: string;
}

/** Prefixes of the names of chains; the short name of the agent follows. */
export const chainPrefix: Chains = {
  ports: 'SETPOINT-PORTS-',
  back: 'SETPOINT-BACK-',
  pass: 'SETPOINT-PASS-',
  early: 'SETPOINT-EARLY-',
  guard: 'SETPOINT-GUARD-',
  host: 'SETPOINT-HOST-',
  loop: 'SETPOINT-LOOP-',
  steps: 'SETPOINT-STEPS-',
  stepsHost: 'SETPOINT-SHOST-',
};

/** Returns an agent's short name in chains: the first twelve letters and digits of the id of its server. */
export function shortOwner(owner: string): string {
  return owner.replaceAll(/[^0-9a-zA-Z]/g, '').slice(0, 12);
}

/** @param owner id of the agent's server, or its short form */
export function chainsOf(owner: string): Chains {
  const short = shortOwner(owner);
  const { ports, back, pass, early, guard, host, loop, steps, stepsHost } = chainPrefix;
  return {
    ports: ports + short,
    back: back + short,
    pass: pass + short,
    early: early + short,
    guard: guard + short,
    host: host + short,
    loop: loop + short,
    steps: steps + short,
    stepsHost: stepsHost + short,
  };
}

/** A bridge that instances are attached to. */
export interface Bridge {
  name: string;
  /** Its network, such as `172.18.0.0/16`, or an address in it, such as `172.18.0.1/16`. */
  subnet: string;
}

/** A published port with the instances that it leads to, each with its bridge; `undefined`: it is on no bridge. */
export interface Publication {
  port: number;
  backends: readonly (PortBackend & { bridge: Bridge | undefined })[];
}

export type Table = 'raw' | 'filter' | 'nat';

/** `before-return`: ahead of the last rule, which returns. */
export type Place = 'first' | 'last' | 'before-return';

/** The operator's chain for forwarded connections. */
export interface Operator {
  chain: string;
  /** Its last rule returns, and no other one does so without a condition: what was put ahead of that comes last. */
  returns: boolean;
}

/** One chain of an agent: its rules in order, each without `-A` and the name of the chain. */
export interface Chain {
  table: Table;
  name: string;
  rules: readonly string[];
  /** Jumps to the chain: the chain that jumps, condition, and where in that chain. */
  jumps: readonly { from: string; condition: string; place: Place }[];
}

export type Family = 'ipv4' | 'ipv6';

/**
 * Chain in which an operator permits instances more of the machine. If it exists, its rules come before the refusals.
 */
export const operatorsHostChain = 'SETPOINT-USER';

/** Link-local addresses, and those at which clouds give credentials to their machines. */
export const linkLocal: Readonly<Record<Family, readonly string[]>> = {
  ipv4: ['169.254.0.0/16'],
  ipv6: ['fe80::/10', 'fd00:ec2::254/128'],
};
export const refusal: Readonly<Record<Family, string>> = {
  ipv4: 'icmp-port-unreachable',
  ipv6: 'icmp6-port-unreachable',
};
const icmp: Readonly<Record<Family, string>> = { ipv4: 'icmp', ipv6: 'ipv6-icmp' };

/**
 * Keeps instances and builds from link-local addresses and from programs that listen on the machine. The rules match
 * the names of the agent's bridges, so that they hold in every network before its first container. Still allowed are
 * the ports of the server's proxy, published ports (they are led to instances before they meet these rules), a resolver, and answers to connections that
 * the machine began.
 *
 * @param operator the operator's chains: for what is forwarded, and for what is sent to the machine itself
 */
export function guardChains(
  chains: Chains,
  family: Family,
  operator: { forward?: string | undefined; host?: string | undefined } = {},
  admitted: readonly number[] = [],
): Chain[] {
  return [
    {
      table: 'filter',
      name: chains.guard,
      rules: linkLocal[family].map((range) => `-d ${range} -i sp-+ -j REJECT --reject-with ${refusal[family]}`),
      // With each network that it makes, the engine accepts all that leaves it ahead of other rules, and then puts the
      // operator's chain first again, before anything is in that network.
      jumps: ['FORWARD', ...(operator.forward === undefined ? [] : [operator.forward])].map((from) => ({
        from,
        condition: '',
        place: 'first',
      })),
    },
    {
      table: 'filter',
      name: chains.host,
      rules: hostRules(family, operator.host, admitted),
      jumps: [{ from: 'INPUT', condition: '-i sp-+ ', place: 'first' }],
    },
  ];
}

/** What may be reached on the machine itself. */
export function hostRules(
  family: Family,
  operatorChain: string | undefined,
  admitted: readonly number[] = [],
): string[] {
  return [
    '-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN',
    `-p ${icmp[family]} -j RETURN`,
    '-p udp -m udp --dport 53 -j RETURN',
    '-p tcp -m tcp --dport 53 -j RETURN',
    ...admitted.flatMap((port) =>
      ['tcp', 'udp'].map((kind) => `-p ${kind} -m ${kind} --dport ${checkedPort(port)} -j RETURN`),
    ),
    ...(operatorChain === undefined ? [] : [`-j ${operatorChain}`]),
    '-p tcp -j REJECT --reject-with tcp-reset',
    `-j REJECT --reject-with ${refusal[family]}`,
  ];
}

/**
 * Returns the whole rule set of published ports. A connection to a port of this machine, from any source, is led to one
 * of its instances, each with the same probability. Open connections keep their instance when the rules change.
 */
export function ruleSet(
  chains: Chains,
  publications: readonly Publication[],
  bridges: readonly string[],
  operator: Operator | undefined,
): Chain[] {
  const all = publications.flatMap(({ backends }) => backends);
  for (const name of [...bridges, ...all.flatMap(({ bridge }) => bridge?.name ?? [])]) assertName(name);
  return [
    {
      table: 'raw',
      name: chains.loop,
      // CVE-2020-8558: with route_localnet, containers on the bridge could reach what listens on 127.0.0.1 only.
      rules: bridges.map((name) => `-d 127.0.0.0/8 -i ${name} -j DROP`),
      jumps: [{ from: 'PREROUTING', condition: '', place: 'last' }],
    },
    {
      table: 'filter',
      name: chains.pass,
      rules: publications.flatMap((one) => forwarding(one, operator?.chain)),
      // Ahead of the engine's own chains, which drop what the engine did not publish itself.
      jumps: [{ from: 'FORWARD', condition: '', place: 'first' }],
    },
    {
      table: 'filter',
      name: chains.early,
      // With each network that it makes, the engine puts its chains first again, but the operator's ahead of them.
      rules: operator?.returns === true ? publications.flatMap((one) => forwarding(one, undefined)) : [],
      jumps: operator?.returns === true ? [{ from: operator.chain, condition: '', place: 'before-return' }] : [],
    },
    {
      table: 'nat',
      name: chains.ports,
      rules: publications.flatMap(destinations),
      jumps: [
        { from: 'PREROUTING', condition: '-m addrtype --dst-type LOCAL ', place: 'last' },
        { from: 'OUTPUT', condition: '-m addrtype --dst-type LOCAL ', place: 'last' },
      ],
    },
    {
      table: 'nat',
      name: chains.back,
      rules: publications.flatMap(sources),
      jumps: [{ from: 'POSTROUTING', condition: '', place: 'last' }],
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

/** The operator's rules in DOCKER-USER apply to these connections too; what they do not drop is accepted. */
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

/**
 * Connections from 127.0.0.1 or the instance's own network are masqueraded: else answers would not pass this machine. The
 * rules name no instance: that of a connection may be withdrawn between its choice and this rule, and a connection that
 * was not masqueraded at its first packet never is.
 */
function sources({ port, backends }: Publication): string[] {
  const to = `-m conntrack --ctstate DNAT --ctorigdstport ${checkedPort(port)} -j MASQUERADE`;
  const subnets = new Set(backends.flatMap(({ bridge }) => bridge?.subnet ?? []));
  return [`-s 127.0.0.0/8 -p tcp ${to}`, ...[...subnets].map((subnet) => `-s ${subnet} -d ${subnet} -p tcp ${to}`)];
}

/** These texts become lines of a rule file, so that each must be checked. */
function checkedAddress({ address }: PortBackend): string {
  if (!isIPv4(address)) throw new TypeError(`Cannot lead a port to ${JSON.stringify(address)}: no IPv4 address`);
  return address;
}

function checkedPort(port: number): number {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new TypeError(`Not a port: ${port}`);
  return port;
}

export function assertName(name: string): void {
  if (!/^[A-Za-z0-9_.-]{1,15}$/.test(name)) throw new TypeError(`Not the name of a bridge: ${JSON.stringify(name)}`);
}
