import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import { parseCpus } from '../store/kinds/quantity.ts';
import type { Node } from './node.ts';
import { readBytes, readKeys, readText, readWhole, withoutEffect } from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

type Restart = PlainComposedService['restart_policy'];

/** What `deploy` and the keys beside it say about a service. */
export interface Scale {
  replicas: number;
  restart: Restart | undefined;
  limits: PlainComposedService['limits'];
}

const maxReplicas = 20;
const leastMemory = 6 * 1024 ** 2;
const mostMemory = 2 ** 44;

export function readMemory(node: Node, found: Found): number | undefined {
  return readBytes(node, leastMemory, mostMemory, found);
}

/** Reads a number of processors as billionths of one. */
export function readCpus(node: Node, found: Found): number | undefined {
  const parsed = parseCpus(readText(node, found) ?? '');
  if ('nanoCpus' in parsed) return parsed.nanoCpus;
  return found.findings.error(node, 'must be a number of CPUs such as 0.5');
}

export function readProcesses(node: Node, found: Found): number | undefined {
  return readWhole(node, 1, 1_000_000, found);
}

/** Reads `restart`, and `condition` of `deploy.restart_policy`. */
export function readRestart(node: Node, { findings }: Found): Restart | undefined {
  const text = node.type === 'scalar' ? node.text : '';
  const [, word = '', times] = /^([a-z-]+)(?::(\d+))?$/.exec(text) ?? [];
  if (times !== undefined) findings.warn(node, 'counts no attempts: pauses between them grow to five minutes');
  switch (word) {
    case 'always':
    case 'any':
      return 'always';
    case 'unless-stopped':
      return 'always';
    case 'on-failure':
      return 'on-failure';
    case 'no':
    case 'none':
    case 'false':
      return 'no';
    default:
      return findings.error(node, 'must be "no", always, on-failure or unless-stopped');
  }
}

/** Reads `deploy` into `scale`. */
export function readDeploy(node: Node, scale: Scale, found: Found): void {
  const { limits } = scale;
  const ofLimits: Keys<Found> = {
    cpus: (it) => assign(limits, 'nano_cpus', readCpus(it, found)),
    memory: (it) => assign(limits, 'memory_bytes', readMemory(it, found)),
    pids: (it) => assign(limits, 'processes', readProcesses(it, found)),
  };
  const kept = withoutEffect('nothing of a server is kept for one service');
  const devices = { devices: 'an instance may not use what belongs to its server', generic_resources: 'so do these' };
  const ofRestart: Keys<Found> = {
    condition: (it) => (scale.restart = readRestart(it, found)),
    delay: withoutEffect('pauses between restarts grow from 10 s to five minutes'),
    max_attempts: withoutEffect('pauses between restarts grow from 10 s to five minutes'),
    window: withoutEffect('pauses between restarts grow from 10 s to five minutes'),
  };
  const keys: Keys<Found> = {
    replicas: (it) => (scale.replicas = readWhole(it, 0, maxReplicas, found) ?? scale.replicas),
    resources: (it) =>
      readKeys(
        it,
        {
          limits: (at) => readKeys(at, ofLimits, found, devices),
          reservations: (at) => readKeys(at, { cpus: kept, memory: kept }, found, devices),
        },
        found,
      ),
    restart_policy: (it) => readKeys(it, ofRestart, found),
    update_config: withoutEffect('releases are those of Setpoint: new instances beside the old ones'),
    rollback_config: withoutEffect('a release that fails returns by itself to the last success'),
    labels: withoutEffect('Setpoint keeps no labels of services'),
  };
  readKeys(node, keys, found, {
    mode: 'a service has as many instances as replicas says',
    placement: 'all services run on the server of their application',
    endpoint_mode: 'services reach each other by name',
  });
}

export function assign<T extends object, K extends keyof T>(to: T, key: K, value: T[K] | undefined): void {
  if (value !== undefined) to[key] = value;
}
