import type { Logger } from 'pino';
import { Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Mirror } from '../../store/mirror.ts';
import { objectsInGap } from '../../store/release.ts';
import { otherLeader } from '../../store/replicas.ts';

/** How many objects of each kind the leader does not reconcile, or only in part, as its release does not know them. */
function unattendedObjects(mirror: Mirror, self: string): Readonly<Record<string, number>> {
  const leader = otherLeader(mirror, self);
  if (leader === undefined) return {};
  const found = mirror.tenants().flatMap((tenant) => objectsInGap(leader.gap, mirror.tenant(tenant)));
  const kinds = Map.groupBy(found, ({ meta }) => meta.kind);
  return Object.fromEntries([...kinds].map(([kind, all]) => [kind, all.length]));
}

/** Logs which objects the leader does not reconcile. Call the returned function from time to time: it logs changes. */
export function unattendedLog(mirror: Mirror, self: string, log: Logger): () => void {
  let logged = '{}';
  return () => {
    const objects = unattendedObjects(mirror, self);
    const text = JSON.stringify(objects);
    if (text === logged) return;
    logged = text;
    if (text === '{}') log.info('The leader knows all objects again, and reconciles them');
    else
      log.warn(
        { objects, leader: otherLeader(mirror, self)?.url, advice: 'Upgrade that replica, or stop it' },
        'The leader is of an earlier release and does not know these objects: they stay as they are until another leads',
      );
  };
}

/** Registers the gauge of these objects. */
export function unattendedMetric(registry: Registry, mirror: Mirror, self: string): void {
  const gauge: Gauge<'kind'> = new Gauge({
    name: 'setpoint_unattended_objects',
    help: 'Objects that the leader does not reconcile as its release does not know them',
    labelNames: ['kind'] as const,
    registers: [registry],
    collect() {
      gauge.reset();
      for (const [kind, count] of Object.entries(unattendedObjects(mirror, self))) gauge.set({ kind }, count);
    },
  });
}
