import { wait, type Clock } from '../../time/clock.ts';
import { run } from '../machine/process.ts';
import type { ForeignPort } from './foreign-rules.ts';
import { withoutPort } from './foreign-rules.ts';
import { chainPrefix, type Chain, type Family, type Place, type Present, type Table } from './rules.ts';

const maxOutputBytes = 32 * 1024 * 1024;
const tables: readonly Table[] = ['raw', 'filter', 'nat'];
const tries = 5;
const retryMs = 50;

/** Access to the kernel's packet filter by its own programs. */
export interface Firewall {
  read(signal: AbortSignal): Promise<Present>;
  /** Gives these chains exactly these rules, and one of each of their jumps. Each table changes in one step. */
  replace(chains: readonly Chain[], present: Present, signal: AbortSignal): Promise<void>;
  /** Removes one port from the rules of another agent. */
  takeOver(port: ForeignPort, present: Present, signal: AbortSignal): Promise<void>;
  /** Removes these chains and the jumps to them. */
  remove(chains: readonly Chain[], present: Present, signal: AbortSignal): Promise<void>;
}

/** Programs that read and write the rules of each family. */
const programs = {
  ipv4: { save: 'iptables-save', restore: 'iptables-restore' },
  ipv6: { save: 'ip6tables-save', restore: 'ip6tables-restore' },
} as const;

export function iptables(clock: Clock, family: Family = 'ipv4'): Firewall {
  const program = programs[family];
  const restore = async (text: string, signal: AbortSignal): Promise<void> => {
    if (text === '') return;
    // The engine changes the same tables. On nftables, one of two changes at the same time fails and is tried again.
    for (let left = tries; ; left--) {
      const options = { args: ['--noflush', '--wait', '5'], input: text, maxOutputBytes };
      const { code, stderr } = await run(program.restore, options, signal);
      if (code === 0) return;
      if (left === 1) throw new Error(`Cannot change the rules of the packet filter: ${stderr.trim().slice(0, 500)}`);
      await wait(clock, retryMs, signal);
    }
  };
  return {
    async read(signal) {
      const { code, stdout, stderr } = await run(program.save, { args: [], maxOutputBytes }, signal);
      if (code !== 0) throw new Error(`Cannot read the rules of the packet filter: ${stderr.trim().slice(0, 500)}`);
      return parse(stdout);
    },
    replace: (chains, present, signal) =>
      restore(
        tables
          .map((table) =>
            replacing(
              chains.filter((one) => one.table === table),
              present,
            ),
          )
          .join(''),
        signal,
      ),
    takeOver: (port, present, signal) => restore(withoutPort(present, port), signal),
    remove: (chains, present, signal) =>
      restore(
        tables
          .map((table) =>
            removing(
              chains.filter((one) => one.table === table),
              present,
            ),
          )
          .join(''),
        signal,
      ),
  };
}

/** Returns the kernel's rules of these chains, and whether all their jumps are in place. */
export function standOf(chains: readonly Chain[], present: Present): { rules: string; reached: boolean } {
  const own = chains.flatMap(({ table, name }) =>
    (present.get(table) ?? []).filter((line) => line.startsWith(`-A ${name} `)),
  );
  return { rules: own.join('\n'), reached: chains.every((one) => isReached(one, present)) };
}

function isReached(chain: Chain, present: Present): boolean {
  return chain.jumps.every(({ from, place }) => {
    const lines = (present.get(chain.table) ?? []).filter((line) => line.startsWith(`-A ${from} `));
    const at = lines.flatMap((line, index) => (leadsTo(line, chain.name) ? [index] : []));
    const [only = -1] = at;
    return at.length === 1 && isInPlace(lines, only, place);
  });
}

/** Several agents cannot all be first, nor all be last: it is enough to be so among the rules of others. */
function isInPlace(lines: readonly string[], at: number, place: Place): boolean {
  if (place === 'last') return true;
  if (place === 'first') {
    const engine = lines.findIndex((line) => / -j DOCKER(?!-USER)/.test(line));
    return engine === -1 || at < engine;
  }
  return returnsAtItsEnd(lines) && lines.slice(at + 1, -1).every((line) => line.includes(` -j ${chainPrefix.early}`));
}

/** Whether the last of the rules of a chain returns, and no other one does so without a condition. */
export function returnsAtItsEnd(lines: readonly string[]): boolean {
  const first = lines.findIndex((line) => /^-A \S+ -j RETURN$/.test(line));
  return first !== -1 && first === lines.length - 1;
}

function replacing(chains: readonly Chain[], present: Present): string {
  const [one] = chains;
  if (!one) return '';
  const jumps = chains.flatMap((chain) =>
    isReached(chain, present)
      ? []
      : [...withoutJumps(chain, present), ...chain.jumps.flatMap((jump) => jumpLines(jump, chain.name))],
  );
  const lines = [
    `*${one.table}`,
    ...chains.map(({ name }) => `:${name} - [0:0]`),
    ...chains.flatMap(({ name, rules }) => rules.map((rule) => `-A ${name} ${rule}`)),
    ...jumps,
    'COMMIT',
  ];
  return `${lines.join('\n')}\n`;
}

function removing(chains: readonly Chain[], present: Present): string {
  const there = chains.filter(({ table, name }) =>
    (present.get(table) ?? []).some((line) => line.startsWith(`:${name} `)),
  );
  const [one] = there;
  if (!one) return '';
  const lines = [
    `*${one.table}`,
    ...there.flatMap((chain) => [...withoutJumps(chain, present), `-F ${chain.name}`, `-X ${chain.name}`]),
    'COMMIT',
  ];
  return `${lines.join('\n')}\n`;
}

function jumpLines({ from, condition, place }: Chain['jumps'][number], name: string): string[] {
  if (place === 'first') return [`-I ${from} 1 ${condition}-j ${name}`];
  const last = `-A ${from} ${condition}-j ${name}`;
  // In one step with its neighbours, and without a number that a change of another program would make wrong.
  return place === 'last' ? [last] : [`-D ${from} -j RETURN`, last, `-A ${from} -j RETURN`];
}

function withoutJumps(chain: Chain, present: Present): string[] {
  return (present.get(chain.table) ?? [])
    .filter((line) => line.startsWith('-A ') && leadsTo(line, chain.name))
    .map((line) => line.replace('-A', '-D'));
}

function leadsTo(line: string, name: string): boolean {
  return line.endsWith(` -j ${name}`);
}

function parse(text: string): Present {
  const found = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      lines = [];
      found.set(line.slice(1), lines);
    } else if (line.startsWith('-A ') || line.startsWith(':')) lines.push(line);
  }
  return found;
}
