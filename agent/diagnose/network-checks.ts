import type { MachineCheck } from '../../agent-protocol/diagnosis.ts';
import { engineRulesRemedy, wordsOf } from '../ports/engine-rules.ts';
import { programAt } from '../ports/port-problems.ts';
import { someOf, type Check } from './check.ts';

export const dns: Check = {
  name: 'dns',
  isOutside: true,
  async look(world, signal) {
    const hosts = [...new Set([...world.controlHosts, ...world.registries().map(nameOf)])];
    const lost = await failing(hosts, (host) => world.resolve(host, signal), signal);
    if (lost.length === 0)
      return { status: 'pass', message: hosts.length === 0 ? 'No name is needed' : `Found ${someOf(hosts)}` };
    const isControlLost = world.controlHosts.some((host) => lost.includes(host));
    return {
      status: isControlLost || lost.length === hosts.length ? 'fail' : 'warn',
      message: `The machine finds no address of ${someOf(lost)}`,
      remedy: 'Look at /etc/resolv.conf and ask each of its servers: resolvectl status, dig @SERVER NAME',
    };
  },
};

export const registry: Check = {
  name: 'registry',
  isOutside: true,
  async look(world, signal) {
    const { https } = (await world.engine()).proxy;
    if (https !== '')
      return { status: 'pass', message: 'The container engine asks registries through its proxy: see the check proxy' };
    const registries = world.registries();
    const silent = await failing(
      registries,
      async (one) => {
        const status = await world.ask(one, signal);
        if (status >= 500 || status === 429) throw new Error(`It answered ${status}`);
      },
      signal,
    );
    if (silent.length === 0)
      return {
        status: 'pass',
        message: registries.length === 0 ? 'No registry is allowed by name' : `${someOf(registries)} answered`,
      };
    return {
      status: silent.length === registries.length ? 'fail' : 'warn',
      message: `No use can be made of ${someOf(silent)}: it did not answer, or not with what a registry answers`,
      remedy:
        'Deployments of images wait or fail. Try from the machine: curl -v https://REGISTRY/v2/, and look at its firewall',
    };
  },
};

export const firewall: Check = {
  name: 'firewall',
  async look(world, signal) {
    const missing = await world.engineRules(signal);
    if (missing === undefined)
      return { status: 'pass', message: 'No rule that the container engine sets in the packet filter is missing' };
    const status = missing.tables.length > 0 ? 'fail' : 'warn';
    return { status, message: wordsOf(missing), remedy: engineRulesRemedy };
  },
};

export const port80: Check = portCheck('port_80', 80);
export const port443: Check = portCheck('port_443', 443);

function portCheck(name: MachineCheck, port: number): Check {
  return {
    name,
    async look(world, signal) {
      const { isWanted, problem } = world.port(port);
      if (problem !== undefined)
        return {
          status: 'fail',
          message: problem.message,
          remedy: `Find what has the port: ss -ltnp 'sport = :${port}'`,
        };
      if (isWanted) return { status: 'pass', message: `Port ${port} is an application's` };
      const other = await world.rulesOf(port, signal);
      if (other !== undefined)
        return {
          status: 'warn',
          message: `Port ${port} is led elsewhere by rules of the agent of another server (${other}…)`,
          remedy: 'If that agent does not run here any more: setpoint agent clean',
        };
      if (!(await world.listeners()).has(port)) return { status: 'pass', message: `Port ${port} is free` };
      const user = await world.userOfPort(port);
      return {
        status: 'warn',
        message: `Port ${port} is taken by ${programAt(port, user)}: no application can be bound to it`,
        remedy: `Stop ${user === undefined ? 'it' : `process ${user.pid}`}, if applications are to have the port: ss -ltnp 'sport = :${port}'`,
      };
    },
  };
}

/** Those of which the work failed. @throws the signal's reason */
async function failing(
  names: readonly string[],
  work: (name: string) => Promise<unknown>,
  signal: AbortSignal,
): Promise<string[]> {
  const results = await Promise.allSettled(names.map(work));
  signal.throwIfAborted();
  return names.filter((_, at) => results[at]?.status === 'rejected');
}

/** The host of a registry. */
function nameOf(registry: string): string {
  return registry.replace(/:\d+$/, '');
}
