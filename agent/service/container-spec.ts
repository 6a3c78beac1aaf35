import type { ServiceItem } from './memory.ts';
import type { ContainerSpec } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';

/**
 * Returns the container that a service item asks for. It has no restart policy: it gets that only once it is healthy.
 * @throws Error if the agent does not have the configuration of the item
 */
export function containerSpec(
  item: ServiceItem,
  { server, name, image, storageBytes }: { server: string; name: string; image: string; storageBytes: number },
): ContainerSpec {
  const { spec } = item;
  const { memory_bytes, nano_cpus } = spec.limits;
  if (spec.configuration === undefined) throw new Error(`The configuration of assignment ${item.id} is not here`);
  return {
    name,
    image,
    labels: {
      [labels.assignment]: item.id,
      [labels.generation]: String(item.generation),
      [labels.specHash]: item.spec_hash,
      [labels.type]: 'service',
      [labels.workload]: item.workload_id,
      [labels.tenant]: item.tenant,
      [labels.server]: server,
      [labels.storage]: String(storageBytes),
      ...(spec.restart_token === undefined ? {} : { [labels.restartToken]: spec.restart_token }),
    },
    env: spec.configuration.env,
    ...(spec.command === undefined ? {} : { command: spec.command }),
    ...(memory_bytes === undefined ? {} : { memoryBytes: memory_bytes }),
    ...(nano_cpus === undefined ? {} : { nanoCpus: nano_cpus }),
    networks: spec.networks,
    restart: 'no',
  };
}
