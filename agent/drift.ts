import { containerName } from './ledger.ts';
import type { Memory, ServiceItem } from './memory.ts';
import { settingsOf } from './memory.ts';
import type { Actual } from './observer.ts';
import type { ContainerDetail } from './runtime/runtime.ts';
import { labels } from './runtime/runtime.ts';

/** Why a container cannot stand for its assignment and has to be replaced. */
export type Drift =
  /** Another spec, restart token or image is desired than it was made for. */
  | 'spec'
  | 'restart'
  | 'image'
  /** Somebody made it, or changed it, from outside. */
  | 'forged'
  | 'name'
  | 'settings'
  | 'network'
  /** It can only be removed. */
  | 'dead'
  /** It wrote more than it may. */
  | 'storage'
  | 'unstartable';

/** Why a container cannot stand for the assignment. */
export function driftOf(desired: ServiceItem, actual: Actual, memory: Memory): Drift | undefined {
  const { container } = actual;
  const { spec } = desired;
  if (actual.origin === 'named') return 'forged';
  if (container.name !== containerName(spec.alias, desired.id)) return 'name';
  if (container.labels[labels.specHash] !== desired.spec_hash) return 'spec';
  if ((container.labels[labels.restartToken] ?? '') !== (spec.restart_token ?? '')) return 'restart';
  if (container.state === 'dead') return 'dead';
  if (container.id === memory.unstartable && container.state !== 'running') return 'unstartable';
  if (container.id === memory.overflow?.container) return 'storage';
  return imageDrift(desired, actual, memory) ?? settingsDrift(desired, actual, memory);
}

/** A tag may move on while its container runs; a pinned image is the one that must run. */
function imageDrift(desired: ServiceItem, { container }: Actual, { image }: Memory): Drift | undefined {
  if (desired.spec.image_digest === undefined || image?.of !== imageKey(desired)) return undefined;
  return image.id === container.imageId ? undefined : 'image';
}

function settingsDrift(desired: ServiceItem, { container, detail }: Actual, { baseline }: Memory): Drift | undefined {
  if (detail === undefined) return undefined;
  const known = baseline?.container === container.id ? baseline : undefined;
  if (known !== undefined && known.settings !== settingsOf(detail)) return 'settings';
  // One that this process made is compared with itself only: how an engine shows a setting is its own affair.
  if (known?.own !== true && !isMadeAsDesired(desired, detail)) return 'settings';
  return container.state === 'running' && !(desired.spec.network in detail.addresses) ? 'network' : undefined;
}

/** Remembers a container that lost its network: that shows only while it runs, and a start would not cure it. */
export function condemn(memory: Memory, desired: ServiceItem | undefined, actual: readonly Actual[]): Memory {
  const cutOff = actual.find((it) => desired !== undefined && driftOf(desired, it, memory) === 'network');
  return cutOff === undefined ? memory : { ...memory, unstartable: cutOff.container.id };
}

/** What an image was resolved for: it need not be resolved again while this stays. */
export function imageKey(desired: ServiceItem): string {
  return `${desired.spec_hash} ${desired.spec.image_digest ?? ''}`;
}

function isMadeAsDesired({ spec }: ServiceItem, detail: ContainerDetail): boolean {
  const env = new Set(detail.env);
  // One that was made before there were defaults has none, and stays.
  const [memory = 0, cpus = 0] = (detail.labels[labels.defaults] ?? '').split(' ').map(Number);
  return (
    Object.entries(spec.env ?? {}).every(([key, value]) => env.has(`${key}=${value}`)) &&
    (spec.command === undefined || JSON.stringify(spec.command) === JSON.stringify(detail.command)) &&
    (spec.memory_bytes ?? memory) === detail.memoryBytes &&
    (spec.nano_cpus ?? cpus) === detail.nanoCpus
  );
}
