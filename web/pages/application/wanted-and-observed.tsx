import type { VNode } from 'preact';
import type { Application } from '../../model.ts';
import { Facts } from '../../parts/card.tsx';
import { Duration } from '../../parts/duration.tsx';
import { Shape } from '../../parts/shape.tsx';

/** What is wanted of an application beside what is observed; one line if both are the same. */
export function WantedAndObserved({ it }: { it: Application }): VNode {
  const { generation, observed_generation: seen } = it;
  const wanted = it.run === 'stopped' ? 'stopped' : `running, ${it.replicas} ready`;
  const observed = it.status === 'stopped' ? 'stopped' : `${it.status}, ${it.ready_replicas} ready`;
  const isServing = it.deployment_id === it.current_deployment_id;
  const isSame =
    seen >= generation &&
    isServing &&
    (it.run === 'stopped' ? it.status === 'stopped' : it.status === 'running' && it.ready_replicas >= it.replicas);
  if (isSame)
    return (
      <p class="row">
        <Shape of="good" /> As wanted, generation {generation}
      </p>
    );
  if (seen === 0)
    return (
      <p class="row">
        <Shape of="waiting" /> No controller has looked at it yet
      </p>
    );
  return (
    <Facts
      of={[
        ['Wanted', wanted],
        ['Observed', observed],
        [
          'Generation',
          seen < generation ? (
            <>
              {generation} wanted, {seen} observed: worked on for <Duration from={it.updated_at} />
            </>
          ) : (
            `${generation}, observed`
          ),
        ],
        ['Deployment', isServing ? undefined : 'The newest one does not serve'],
      ]}
    />
  );
}
