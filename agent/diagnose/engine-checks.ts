import type { Check } from './check.ts';
import { judgeRunc } from './runc-versions.ts';
import type { World } from './world.ts';

/** Networks that should be left in the pools of the engine. */
const fewNetworks = 3;

export const engine: Check = {
  name: 'engine',
  async look(world) {
    const trouble = world.trouble();
    if (trouble !== undefined)
      return { status: 'fail', message: trouble, remedy: 'Do what the message says; instances go on meanwhile' };
    const { version } = await world.engine();
    const [major = 0, minor = 0] = version.split('.').map(Number);
    if (major === 20 && minor >= 10 && minor < 11)
      return {
        status: 'warn',
        message: `The container engine answers, version ${version}, which gets no corrections any more`,
        remedy: 'Upgrade the engine of the machine: with live-restore its containers go on',
      };
    return { status: 'pass', message: `The container engine answers, version ${version}` };
  },
};

export const runc: Check = {
  name: 'runc',
  async look(world) {
    const { runc: version } = await world.engine();
    if (version === undefined) return { status: 'pass', message: 'The container engine does not use runc' };
    const judged = judgeRunc(version);
    const remedy = 'Upgrade runc to 1.2.8, 1.3.3, 1.4.0 or later, as by the package containerd.io, and deploy again';
    switch (judged.is) {
      case 'good':
        return { status: 'pass', message: `runc ${version} has no known way out of a container` };
      case 'bad':
        return {
          status: 'fail',
          message: `runc ${version} lets containers out of their bounds: ${judged.faults}`,
          remedy,
        };
      case 'unknown':
        return {
          status: 'warn',
          message: `runc ${version} is no release of runc itself: it is not known whether ${judged.faults ?? 'known faults'} are mended in it`,
          remedy: `Look at the security notes of the distribution for this package. ${remedy}`,
        };
    }
  },
};

export const liveRestore: Check = {
  name: 'live_restore',
  async look(world) {
    const { liveRestore: isSet } = await world.engine();
    if (isSet) return { status: 'pass', message: 'Containers go on while the container engine restarts' };
    return {
      status: 'warn',
      message: 'A restart or an upgrade of the container engine stops all containers of the machine',
      remedy: 'Set "live-restore": true in /etc/docker/daemon.json, then: systemctl reload docker',
    };
  },
};

export const addressPools: Check = {
  name: 'address_pools',
  async look(world) {
    const { free, total, hasSpare } = (await world.engine()).addresses;
    const left = `${free} of the ${total} networks of the engine's address pools are free`;
    const remedy =
      'Remove networks that are not used (heal: orphaned_networks, docker network prune), or give the engine further "default-address-pools" in /etc/docker/daemon.json';
    if (free > fewNetworks) return { status: 'pass', message: left };
    if (hasSpare)
      return free > 0
        ? { status: 'pass', message: `${left}; the agent has further addresses of its own (10.208.0.0/12)` }
        : {
            status: 'warn',
            message: `${left}: environments get addresses of 10.208.0.0/12, other programs of the machine none`,
            remedy,
          };
    return {
      status: free === 0 ? 'fail' : 'warn',
      message: `${left}, and all of 10.208.0.0/12, from which the agent takes further ones, has routes to elsewhere`,
      remedy,
    };
  },
};

export const proxy: Check = {
  name: 'proxy',
  isOutside: true,
  async look(world, signal) {
    const { http, https } = (await world.engine()).proxy;
    if (http === '' && https === '')
      return { status: 'pass', message: 'The container engine reaches registries without a proxy' };
    const remedy =
      'Correct "proxies" in /etc/docker/daemon.json or the environment of its service, then restart the engine';
    for (const text of new Set([http, https].filter((one) => one !== ''))) {
      const fault = await faultOf(text, world, signal);
      if (fault !== undefined) return { status: 'fail', message: fault, remedy };
    }
    if (https === '')
      return {
        status: 'warn',
        message: 'The container engine has a proxy for http alone, and registries are reached by https',
        remedy,
      };
    return { status: 'pass', message: `The proxy of the container engine takes connections: ${hostOf(https)}` };
  },
};

/** The message never shows the URL: it may have a password. */
async function faultOf(text: string, world: World, signal: AbortSignal): Promise<string | undefined> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.hostname === '') return 'A proxy of the container engine is no URL';
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  try {
    await world.connect(url.hostname.replace(/^\[(.*)\]$/, '$1'), port, signal);
    return undefined;
  } catch {
    signal.throwIfAborted();
    return `The proxy of the container engine takes no connections: ${url.hostname}:${port}`;
  }
}

function hostOf(text: string): string {
  return new URL(text).host;
}
