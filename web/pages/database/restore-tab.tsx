import type { VNode } from 'preact';
import { allRestores } from '../../frame/collections.ts';
import { useList } from '../../frame/context.ts';
import { Card } from '../../parts/card.tsx';
import { isUnderWay } from '../backups/restore-steps.ts';
import { RestoresTable } from '../backups/restores-table.tsx';
import { RestoreView } from '../backups/restore-view.tsx';
import { newestFirst } from '../backups/use-backups-of.ts';
import { ImportDump } from './import-dump.tsx';
import { RestoreFlow } from './restore-flow.tsx';
import type { TabProps } from './tab-props.ts';

/** Brings a database back to a backup or an instant: the restore under way, or the flow that begins one. */
export function RestoreTab({ it, query }: TabProps): VNode {
  const { objects } = useList(allRestores, 'restore');
  const own = newestFirst(objects.filter((one) => one.database_id === it.id));
  const current = own.find(({ status, is_drill: isTrial }) => isUnderWay(status) && !isTrial);
  const earlier = own.filter((one) => one !== current);
  return (
    <div class="stack">
      {current === undefined ? (
        <Beginnings it={it} query={query} />
      ) : (
        <Card title="Restore under way">
          <RestoreView it={current} />
        </Card>
      )}
      {earlier.length > 0 && (
        <Card title="Earlier restores">
          <RestoresTable rows={earlier} />
        </Card>
      )}
    </div>
  );
}

/** The two ways in which other data comes into a database; the one that the address names stands first. */
function Beginnings({ it, query }: TabProps): VNode {
  const flow = <RestoreFlow it={it} backupId={query.get('backup') ?? undefined} />;
  const dump = <ImportDump it={it} />;
  return query.get('from') === 'dump' ? (
    <>
      {dump}
      {flow}
    </>
  ) : (
    <>
      {flow}
      {dump}
    </>
  );
}
