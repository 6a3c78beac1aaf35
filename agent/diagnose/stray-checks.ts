import { inMiB, mostHealed, someOf, type Action, type Check } from './check.ts';
import type { StrayNetwork, World } from './world.ts';

const onMachine = 'On the machine: setpoint agent clean --only SERVER shows them and removes them, with what runs';

export const orphanedContainers: Check = {
  name: 'orphaned_containers',
  async look(world, signal) {
    const all = await world.strays.containers(signal);
    const own = all.filter(({ isOwn }) => isOwn);
    const running = all.filter(({ isOwn, isRunning }) => !isOwn && isRunning);
    const still = all.filter(({ isOwn, isRunning }) => !isOwn && !isRunning);
    const servers = [...new Set(all.filter(({ isOwn }) => !isOwn).map(({ server }) => server))];
    if (all.length === 0) return { status: 'pass', message: 'Every container of an agent is needed' };
    if (own.length > 0)
      return {
        status: 'fail',
        message: `${own.length} containers of this server are not wanted any more, and its agent has not removed them yet`,
        remedy: 'Heal it: the agent tries again at once. If they stay, its log has the cause',
        isHealable: true,
      };
    return {
      status: 'warn',
      message: `${still.length} stopped and ${running.length} running containers are of servers whose agents do not run on this machine: ${someOf(servers)}`,
      remedy: still.length === 0 ? onMachine : `Heal it, which removes the stopped ones. ${onMachine}`,
      isHealable: still.length > 0,
    };
  },
  async heal(world, signal) {
    const all = await world.strays.containers(signal);
    return each(
      all,
      world,
      ({ id }) => id.slice(0, 12),
      signal,
      async (it, target) => {
        if (it.isRunning && !it.isOwn)
          return {
            status: 'skipped',
            target,
            message: `It runs, and may be needed by server ${it.server}. ${onMachine}`,
          };
        const left = await world.strays.removeContainer(it, signal);
        if (left !== undefined) return { status: 'skipped', target, message: left };
        return { status: 'done', target, message: it.isOwn ? 'The agent tries again to remove it' : 'Removed' };
      },
    );
  },
};

export const orphanedNetworks: Check = {
  name: 'orphaned_networks',
  async look(world, signal) {
    const all = await world.strays.networks(signal);
    if (all.length === 0) return { status: 'pass', message: 'Every network of an agent is needed' };
    const free = all.filter(({ isUsed }) => !isUsed);
    return {
      status: 'warn',
      message: `${all.length} networks or sets of port rules are not needed by any agent of this machine: ${someOf(all.map(labelOf))}`,
      remedy:
        free.length === 0 ? onMachine : `Heal it, which removes those that no running container uses. ${onMachine}`,
      isHealable: free.length > 0,
    };
  },
  async heal(world, signal) {
    return each(await world.strays.networks(signal), world, labelOf, signal, async (it, target) => {
      if (it.isUsed)
        return { status: 'skipped', target, message: `Containers of server ${it.server} run. ${onMachine}` };
      const left = await world.strays.removeNetwork(it, signal);
      return left === undefined
        ? { status: 'done', target, message: 'Removed' }
        : { status: 'skipped', target, message: left };
    });
  },
};

export const orphanedVolumes: Check = {
  name: 'orphaned_volumes',
  async look(world, signal) {
    const all = await world.strays.volumes(signal);
    if (all.length === 0) return { status: 'pass', message: 'Every volume of an agent is needed' };
    const empty = all.filter(({ isOwn, bytes }) => isOwn && bytes === 0);
    const bytes = all.reduce((sum, it) => sum + (it.bytes ?? 0), 0);
    return {
      status: 'warn',
      message: `${all.length} volumes with ${inMiB(bytes)} belong to no volume of the control plane: ${someOf(all.map(({ name }) => name))}`,
      remedy: `${empty.length === 0 ? '' : 'Heal it, which removes the empty ones of this server. '}Those with data or of another server are never removed by themselves: look into each, then docker volume rm NAME`,
      isHealable: empty.length > 0,
    };
  },
  async heal(world, signal) {
    return each(
      await world.strays.volumes(signal),
      world,
      ({ name }) => name,
      signal,
      async (it, target) => {
        if (it.bytes !== 0)
          return {
            status: 'skipped',
            target,
            message: 'It has data, or cannot be measured: look into it, then docker volume rm NAME',
          };
        const left = await world.strays.removeVolume(it, signal);
        return left === undefined
          ? { status: 'done', target, message: 'Removed: it was empty' }
          : { status: 'skipped', target, message: left };
      },
    );
  },
};

function labelOf({ name, server }: StrayNetwork): string {
  return name ?? `port rules of ${server}`;
}

/** Heals at most `mostHealed` of them, one after another. One that fails does not stop the others. */
async function each<T>(
  all: readonly T[],
  world: World,
  targetOf: (it: T) => string,
  signal: AbortSignal,
  heal: (it: T, target: string) => Promise<Action>,
): Promise<Action[]> {
  const actions: Action[] = [];
  for (const it of all.slice(0, mostHealed)) {
    const target = targetOf(it);
    try {
      actions.push(await heal(it, target));
    } catch (error) {
      signal.throwIfAborted();
      actions.push({ status: 'failed', target, message: world.wordsOf(error) });
    }
  }
  if (all.length > mostHealed)
    actions.push({ status: 'skipped', target: null, message: `${all.length - mostHealed} more are left: heal again` });
  return actions;
}
