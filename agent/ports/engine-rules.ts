import { networkInterfaces } from 'node:os';
import type { Clock } from '../../time/clock.ts';

/** The kernel's rules as `iptables-save` shows them: lines by the name of their table. */
type Present = ReadonlyMap<string, readonly string[]>;

/** A bridge with the address that it has in its network, such as `172.18.0.1/16`. */
interface Bridge {
  name: string;
  subnet: string;
}

/** What the container engine set in the packet filter and is not there any more. */
export interface MissingRules {
  /** Tables without the engine's chain, or without a jump to it. */
  tables: readonly ('nat' | 'filter')[];
  /** Bridges whose instances reach nothing outside, as their rule for that is missing. */
  bridges: readonly string[];
}

/** Names of the bridges that the agent lets the engine make. */
const ownBridge = /^sp-/;
/** An engine that starts makes its rules within this time. */
const graceMs = 4_000;

/** What an operator does about it. */
export const engineRulesRemedy =
  'On the machine: systemctl restart docker, which sets its rules again; with live-restore its containers go on';

/** Follows whether the rules are there that the engine sets for itself: it does not repair them while it runs. */
export class EngineRules {
  readonly #clock: Clock;
  readonly #bridges: () => readonly Bridge[];
  /** They were there once: this engine sets rules by iptables. */
  #wereSeen = false;
  /** Since when some are missing, by the monotonic clock. */
  #since: number | undefined;
  #fault: string | undefined;

  constructor(clock: Clock, bridges: () => readonly Bridge[] = ownBridges) {
    this.#clock = clock;
    this.#bridges = bridges;
  }

  /** What is missing now, in words for an operator; `undefined`: nothing, or it may be back in a moment. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Takes the kernel's rules of now. */
  look(present: Present): void {
    const missing = this.missingIn(present);
    const now = this.#clock.monotonic();
    this.#since = missing === undefined ? undefined : (this.#since ?? now);
    const isLasting = this.#since !== undefined && now - this.#since >= graceMs;
    this.#fault = missing !== undefined && isLasting ? `${wordsOf(missing)}. ${engineRulesRemedy}` : undefined;
    if (hasChain(present, 'nat') && hasChain(present, 'filter')) this.#wereSeen = true;
  }

  missingIn(present: Present): MissingRules | undefined {
    return missingRules(present, { bridges: this.#bridges(), wereSeen: this.#wereSeen });
  }
}

/**
 * Which rules of the engine are missing; `undefined`: none, or it is not known that this engine sets rules by iptables. Pure.
 *
 * @param wereSeen the engine had set its rules before
 */
export function missingRules(
  present: Present,
  { bridges, wereSeen }: { bridges: readonly Bridge[]; wereSeen: boolean },
): MissingRules | undefined {
  const both = ['nat', 'filter'] as const;
  if (!wereSeen && !both.some((table) => hasChain(present, table))) return undefined;
  const tables = both.filter((table) => !hasChain(present, table) || !isReached(present, table));
  const closed = bridges.filter(({ subnet }) => !isMasqueraded(present, subnet)).map(({ name }) => name);
  return tables.length + closed.length === 0 ? undefined : { tables, bridges: closed };
}

/** What is missing and what follows from it, in a sentence without its full stop. */
export function wordsOf({ tables, bridges }: MissingRules): string {
  const some = bridges.length > 3 ? `${bridges.slice(0, 3).join(', ')} and others` : bridges.join(', ');
  if (tables.length === 0)
    return `The rule of the container engine for outgoing connections was removed from the packet filter: instances on ${some} reach nothing outside`;
  const effect = tables.includes('nat') ? 'instances reach nothing outside' : 'instances may get no packets';
  return `Rules of the container engine were removed from the packet filter (table ${tables.join(' and ')}): ${effect}, and networks and builds fail`;
}

function linesOf(present: Present, table: 'nat' | 'filter'): readonly string[] {
  return present.get(table) ?? [];
}

function hasChain(present: Present, table: 'nat' | 'filter'): boolean {
  return linesOf(present, table).some((line) => line.startsWith(':DOCKER '));
}

/** Whether a chain of the kernel leads to one of the engine, other than that of the operator. */
function isReached(present: Present, table: 'nat' | 'filter'): boolean {
  const from = table === 'nat' ? '-A PREROUTING ' : '-A FORWARD ';
  return linesOf(present, table).some((line) => line.startsWith(from) && / -j DOCKER(?!-USER)/.test(line));
}

/** Whether outgoing connections of a network seem to come from the machine, by a rule that no agent made. */
function isMasqueraded(present: Present, subnet: string): boolean {
  const source = ` -s ${networkOf(subnet)} `;
  return linesOf(present, 'nat').some(
    (line) => line.includes(source) && /^-A (?:POSTROUTING|DOCKER\S*) .* -j (?:MASQUERADE|SNAT)\b/.test(line),
  );
}

/** `172.18.0.0/16` of `172.18.0.1/16`. */
function networkOf(cidr: string): string {
  const [address = '', bits = '32'] = cidr.split('/');
  const free = 2 ** (32 - Number(bits));
  const number = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const first = number - (number % free);
  return `${[24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256).join('.')}/${bits}`;
}

/** The bridges of environments that instances are on now. */
function ownBridges(): Bridge[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    ownBridge.test(name)
      ? (addresses ?? []).flatMap(({ family, cidr }) =>
          family === 'IPv4' && cidr !== null ? [{ name, subnet: cidr }] : [],
        )
      : [],
  );
}
