import { machineChecks, type MachineCheck } from '../../agent-protocol/diagnosis.ts';
import type { Check } from './check.ts';
import * as engine from './engine-checks.ts';
import { logStorage } from './log-check.ts';
import * as machine from './machine-checks.ts';
import * as network from './network-checks.ts';
import * as stray from './stray-checks.ts';

/** The check of each name: a name without one does not compile. */
const byName: Readonly<Record<MachineCheck, Check>> = {
  engine: engine.engine,
  runc: engine.runc,
  live_restore: engine.liveRestore,
  disk: machine.disk,
  inodes: machine.inodes,
  memory: machine.memory,
  inotify: machine.inotify,
  git: machine.git,
  address_pools: engine.addressPools,
  firewall: network.firewall,
  dns: network.dns,
  registry: network.registry,
  port_80: network.port80,
  port_443: network.port443,
  proxy: engine.proxy,
  orphaned_containers: stray.orphanedContainers,
  orphaned_networks: stray.orphanedNetworks,
  orphaned_volumes: stray.orphanedVolumes,
  log_storage: logStorage,
};

/** All checks, in the order in which they are shown. */
export const checks: readonly Check[] = machineChecks.map((name) => byName[name]);
