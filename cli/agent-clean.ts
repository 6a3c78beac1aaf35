import { systemClock } from '../time/clock.ts';
import type { Leftover } from '../agent/leftovers.ts';
import { findLeftovers, removeLeftover } from '../agent/leftovers.ts';
import { confirm } from './ask.ts';
import { localRuntime } from './docker-engine.ts';
import { table } from './table.ts';

interface Options {
  dockerSocket: string;
  dryRun?: boolean;
  yes?: boolean;
  /** Ids of servers or their beginnings; without it, all leftovers. */
  only?: string[];
}

const findMs = 60_000;
const removeMs = 600_000;

/**
 * `setpoint agent clean`: removes what is left on this machine from agents that no longer run here. It shows the
 * leftovers first and asks for confirmation. @throws Error if a named server left nothing, or if running agents of
 * earlier releases may own some of it.
 */
export async function cleanAgent({ dockerSocket, dryRun, yes, only }: Options, signal: AbortSignal): Promise<void> {
  using engine = localRuntime(dockerSocket);
  const deps = { engine, clock: systemClock };
  const found = await findLeftovers(deps, AbortSignal.any([signal, AbortSignal.timeout(findMs)]));
  const chosen = only === undefined ? found.leftovers : only.map((name) => oneOf(found.leftovers, name));
  if (chosen.length === 0) {
    console.log('Nothing is left here by agents that do not run on this machine');
    return;
  }
  console.log(leftoverTable(chosen));
  if (dryRun === true) return;
  if (found.doubtful && only === undefined)
    throw new Error(
      'Agents of an earlier release run on this machine, and some of this may be theirs: update or stop them first, or name what is to go by --only SERVER',
    );
  if (yes !== true) await confirm('Remove this, with its containers and what is in them?');
  for (const one of chosen) {
    await removeLeftover(deps, one, AbortSignal.any([signal, AbortSignal.timeout(removeMs)]));
    console.log(`Removed what was left of server ${one.server}`);
  }
}

/** One row per server. */
export function leftoverTable(all: readonly Leftover[]): string {
  const head = ['server', 'containers', 'networks', 'images', 'ports'];
  const rows = all.map((one) => [
    one.server,
    String(one.containers.length),
    String(one.networks.length),
    String(one.images.length),
    one.ports.join(' ') || (one.rules ? 'rules only' : ''),
  ]);
  return table(head, rows);
}

function oneOf(all: readonly Leftover[], name: string): Leftover {
  const found = all.filter(
    ({ server }) => server.startsWith(name) || (server.length < name.length && isShort(server, name)),
  );
  const [one] = found;
  if (one === undefined) throw new Error(`Nothing is left here of server ${name}, or its agent runs on this machine`);
  if (found.length > 1) throw new Error(`Several servers begin with ${name}: name one of them whole`);
  return one;
}

/** Packet filter rules have only the beginning of the server's id, without dashes. */
function isShort(server: string, name: string): boolean {
  return name.replaceAll('-', '').startsWith(server);
}
