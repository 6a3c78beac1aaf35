import type { ServiceDraft, Surroundings } from './service.ts';

/** A volume has one instance that writes to it, so that no data is written by two at once. */
export function checkWriters(drafts: readonly ServiceDraft[], { findings }: Surroundings): void {
  const writers = new Map<string, string>();
  const ports = new Map<number, string>();
  for (const { service, node } of drafts) {
    const at = node.fields.get('volumes') ?? node;
    for (const mount of service.mounts) {
      if (mount.type !== 'volume' || mount.read_only) continue;
      const other = writers.get(mount.volume);
      if (other !== undefined)
        findings.error(
          at,
          `writes to the volume ${mount.volume} as ${other} does: only one service may, the others mount it with :ro`,
        );
      else if (service.replicas > 1)
        findings.error(at, `writes to the volume ${mount.volume}: with it the service can have one replica only`);
      writers.set(mount.volume, service.name);
    }
    for (const { publish } of service.ports) {
      if (publish === undefined) continue;
      const other = ports.get(publish);
      if (other !== undefined)
        findings.error(node.fields.get('ports') ?? node, `publishes port ${publish} as ${other} does`);
      ports.set(publish, service.name);
    }
  }
}
