import type { VNode } from 'preact';
import { Card } from '../../parts/card.tsx';
import type { TabProps } from './tab-props.ts';
import { Happenings } from './happenings.tsx';

/** All that is known to have happened to an application. */
export function EventsTab({ it }: TabProps): VNode {
  return (
    <Card title="Events, deployments and changes">
      <Happenings it={it} most={500} />
    </Card>
  );
}
