import { chainPrefix, type Present } from './rules.ts';

/** A port that the rules of another agent publish. */
export interface ForeignPort {
  /** First letters and digits of the id of the agent's server. */
  owner: string;
  port: number;
  /** A connection meets these rules before the rules of this agent. */
  shadows: boolean;
}

const destination = new RegExp(`^-A ${chainPrefix.ports}([0-9a-zA-Z]+) -p tcp -m tcp --dport (\\d+) .*-j DNAT `);

/** Returns the ports that the kernel's rules publish for agents other than `own`, each port of an agent once. */
export function foreignPorts(present: Present, own: string): ForeignPort[] {
  const lines = present.get('nat') ?? [];
  const found = new Map<string, ForeignPort>();
  for (const line of lines) {
    const [, owner, port] = destination.exec(line) ?? [];
    if (owner === undefined || owner === own || found.has(`${owner} ${port}`)) continue;
    found.set(`${owner} ${port}`, { owner, port: Number(port), shadows: comesFirst(lines, owner, own) });
  }
  return [...found.values()];
}

function comesFirst(lines: readonly string[], owner: string, own: string): boolean {
  const jumps = lines.filter((line) => line.startsWith('-A PREROUTING '));
  const at = (name: string): number => jumps.findIndex((line) => line.endsWith(` -j ${chainPrefix.ports}${name}`));
  return at(own) === -1 || at(owner) < at(own);
}

/** Returns the short names (`shortOwner`) of all agents with rules on this machine. */
export function ownersOfRules(present: Present): Set<string> {
  const names = [...present.values()].flat().flatMap((line) => {
    const [, chain] = /^:(\S+) /.exec(line) ?? [];
    const prefix = Object.values(chainPrefix).find((one) => chain?.startsWith(one) === true);
    return chain === undefined || prefix === undefined ? [] : [chain.slice(prefix.length)];
  });
  return new Set(names);
}

/** Returns an agent's chain of destinations without one port, as text for `iptables-restore --noflush`. */
export function withoutPort(present: Present, { owner, port }: ForeignPort): string {
  const name = `${chainPrefix.ports}${owner}`;
  const rest = (present.get('nat') ?? []).filter(
    (line) => line.startsWith(`-A ${name} `) && !line.includes(` --dport ${port} `),
  );
  return ['*nat', `:${name} - [0:0]`, ...rest, 'COMMIT', ''].join('\n');
}
