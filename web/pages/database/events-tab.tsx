import type { VNode } from 'preact';
import { Card } from '../../parts/card.tsx';
import { Happenings } from './happenings.tsx';
import type { TabProps } from './tab-props.ts';

const mostHappenings = 500;

/** All that is known to have happened to a database. */
export function EventsTab({ it }: TabProps): VNode {
  return (
    <Card title="Events, backups, restores and changes">
      <Happenings it={it} most={mostHappenings} />
    </Card>
  );
}
