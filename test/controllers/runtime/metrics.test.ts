import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { controllerMetrics } from '../../../controllers/runtime/metrics.ts';
import type { KeyedQueue } from '../../../controllers/runtime/queue.ts';

it('what each is a defect is counted from the beginning: an alert sees the first one as an increase', async () => {
  const registry = new Registry();
  const metrics = controllerMetrics(registry);
  const queue = { name: 'volume', depth: 0, oldestMs: 0, running: 0, stuck: 0 } as KeyedQueue; // the gauges read no more
  metrics.observe(queue);
  const text = await registry.metrics();
  for (const series of [
    'setpoint_status_law_violations_total{controller="volume"}',
    'setpoint_wake_failures_total{controller="volume"}',
    'setpoint_orphaned_keys_total{area="unique"}',
  ])
    expect(text).toContain(`${series} 0\n`);
});
