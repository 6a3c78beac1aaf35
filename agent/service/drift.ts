import { hostNetwork } from '../../agent-protocol/workload.ts';
import { containerName } from '../engine/ledger.ts';
import type { Memory, ServiceItem } from './memory.ts';
import { settingsOf } from './memory.ts';
import type { Actual } from '../engine/observer.ts';
import type { ContainerDetail } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';

/** Why a container does not match its assignment and must be replaced. */
export type Drift =
  /** The container was made for another spec, restart token or image than the desired one. */
  | 'spec'
  | 'restart'
  | 'image'
  /** The container was not made by the agent, or was changed from outside. */
  | 'forged'
  | 'name'
  | 'settings'
  | 'network'
  /** The container is dead: it can only be removed. */
  | 'dead'
  /** The container wrote more than its limit. */
  | 'storage'
  | 'unstartable';

/** Returns why the container must be replaced; `undefined` if it matches the assignment. */
export function driftOf(desired: ServiceItem, actual: Actual, memory: Memory): Drift | undefined {
  const { container } = actual;
  const { spec } = desired;
  if (actual.origin === 'named') return 'forged';
  if (container.name !== containerName(desired)) return 'name';
  if (container.labels[labels.specHash] !== desired.spec_hash) return 'spec';
  if ((container.labels[labels.restartToken] ?? '') !== (spec.restart_token ?? '')) return 'restart';
  if (container.state === 'dead') return 'dead';
  if (container.id === memory.unstartable && container.state !== 'running') return 'unstartable';
  if (container.id === memory.overflow?.container) return 'storage';
  return imageDrift(desired, actual, memory) ?? settingsDrift(desired, actual, memory);
}

/** Only a pinned image must be the one that runs: a tag may move on while its container runs. */
function imageDrift(desired: ServiceItem, { container }: Actual, { image }: Memory): Drift | undefined {
  if (desired.spec.image_digest === undefined || image?.of !== imageKey(desired)) return undefined;
  return image.id === container.imageId ? undefined : 'image';
}

function settingsDrift(desired: ServiceItem, { container, detail }: Actual, { baseline }: Memory): Drift | undefined {
  if (detail === undefined) return undefined;
  const known = baseline?.container === container.id ? baseline : undefined;
  if (known !== undefined && known.settings !== settingsOf(detail)) return 'settings';
  // A container that this process made is compared only with its own baseline: engines present settings differently.
  if (known?.own !== true && !isMadeAsDesired(desired, detail)) return 'settings';
  // the engine shows no address of the machine itself
  const isCutOff = desired.spec.networks.some(({ name }) => name !== hostNetwork && !(name in detail.addresses));
  return container.state === 'running' && isCutOff ? 'network' : undefined;
}

/** Remembers a container that lost its network: this shows only while it runs, and a start would not repair it. */
export function condemn(memory: Memory, desired: ServiceItem | undefined, actual: readonly Actual[]): Memory {
  const cutOff = actual.find((it) => desired !== undefined && driftOf(desired, it, memory) === 'network');
  return cutOff === undefined ? memory : { ...memory, unstartable: cutOff.container.id };
}

/** Key of a resolved image: the image need not be resolved again while the key stays the same. */
export function imageKey(desired: ServiceItem): string {
  return `${desired.spec_hash} ${desired.spec.image_digest ?? ''}`;
}

function isMadeAsDesired({ spec }: ServiceItem, detail: ContainerDetail): boolean {
  const env = new Set(detail.env);
  // A container of a release without defaults has no such label, and stays.
  const [memory = 0, cpus = 0] = (detail.labels[labels.defaults] ?? '').split(' ').map(Number);
  return (
    Object.entries(spec.configuration?.env ?? {}).every(([key, value]) => env.has(`${key}=${value}`)) &&
    (spec.command === undefined || JSON.stringify(spec.command) === JSON.stringify(detail.command)) &&
    (spec.limits.memory_bytes ?? memory) === detail.memoryBytes &&
    (spec.limits.nano_cpus ?? cpus) === detail.nanoCpus &&
    // No label holds the default of the agent that made the container.
    (spec.limits.processes ?? detail.processes) === detail.processes
  );
}
