import { wait, type Clock } from '../../time/clock.ts';
import { run } from '../machine/process.ts';
import type { ForeignPort } from './foreign-rules.ts';
import { withoutPort } from './foreign-rules.ts';
import type { Chain, Family, Present, Table } from './rules.ts';

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
  return chain.jumps.every(({ from, first }) => {
    const lines = (present.get(chain.table) ?? []).filter((line) => line.startsWith(`-A ${from} `));
    const at = lines.flatMap((line, index) => (leadsTo(line, chain.name) ? [index] : []));
    const [only = -1] = at;
    // Several agents cannot all be first: it is enough to be ahead of the engine's chains.
    const engine = lines.findIndex((line) => / -j DOCKER(?!-USER)/.test(line));
    return at.length === 1 && (!first || engine === -1 || only < engine);
  });
}

function replacing(chains: readonly Chain[], present: Present): string {
  const [one] = chains;
  if (!one) return '';
  const jumps = chains.flatMap((chain) =>
    isReached(chain, present)
      ? []
      : [...withoutJumps(chain, present), ...chain.jumps.map((jump) => jumpLine(jump, chain.name))],
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

function jumpLine({ from, condition, first }: Chain['jumps'][number], name: string): string {
  return first ? `-I ${from} 1 ${condition}-j ${name}` : `-A ${from} ${condition}-j ${name}`;
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
