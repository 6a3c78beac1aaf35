import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useConsole, useHref } from '../../frame/context.ts';
import { doDatabaseVerb, labelOfDatabaseVerb, whyNotDatabaseVerb } from '../../frame/database-verbs.ts';
import type { SimpleDatabaseVerb } from '../../frame/database-verbs.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Actions } from '../../parts/actions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { BackUpDatabase } from '../backups/back-up.tsx';
import { DeleteDatabase } from './delete-database.tsx';
import { RotatePassword } from './rotate-password.tsx';
import type { Database } from './tab-props.ts';

type Asked = 'backup' | 'rotate' | 'delete' | undefined;

/** The verbs of a database. What its state or the reader's role forbids says so. */
export function DatabaseActions({ it }: { readonly it: Database }): VNode {
  const console = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [running, setRunning] = useState<SimpleDatabaseVerb>();
  const [asked, setAsked] = useState<Asked>();
  const why = (verb: Parameters<typeof whyNotDatabaseVerb>[0]): string | undefined =>
    whyNotDatabaseVerb(verb, it, rank);
  const run = async (verb: SimpleDatabaseVerb): Promise<void> => {
    setRunning(verb);
    await act.run(() => doDatabaseVerb(console, verb, it));
    setRunning(undefined);
  };
  const order: readonly SimpleDatabaseVerb[] =
    it.run === 'stopped' ? ['start', 'restart', 'stop'] : ['restart', 'stop', 'start'];
  const simple = order.map((verb) => ({
    label: labelOfDatabaseVerb(verb),
    why: why(verb),
    busy: running === verb,
    onSelect: () => void run(verb),
  }));
  const backUp = { label: 'Back up now', why: why('backup'), onSelect: () => setAsked('backup') };
  const closed = (): void => setAsked(undefined);
  return (
    <div class="application-actions">
      <Actions
        label={`Actions of ${it.name}`}
        actions={[
          // what one does next stands first: a stopped database is started
          ...(it.run === 'stopped' ? [...simple, backUp] : [backUp, ...simple]),
          {
            label: labelOfDatabaseVerb('restore'),
            why: why('restore'),
            onSelect: () => console.router.go(href(parts(it, 'restore'))),
          },
          {
            label: labelOfDatabaseVerb('import'),
            why: why('import'),
            onSelect: () => console.router.go(href(parts(it, 'restore'), { from: 'dump' })),
          },
          { label: labelOfDatabaseVerb('rotate'), why: why('rotate'), onSelect: () => setAsked('rotate') },
          {
            label: labelOfDatabaseVerb('terminal'),
            why: why('terminal'),
            hint: 't',
            onSelect: () => console.router.go(href(parts(it, 'terminal'))),
          },
          {
            label: labelOfDatabaseVerb('delete'),
            why: why('delete'),
            isDanger: true,
            onSelect: () => setAsked('delete'),
          },
        ]}
      />
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {asked === 'backup' && <BackUpDatabase database={it} onClose={closed} />}
      {asked === 'rotate' && <RotatePassword it={it} onClose={closed} />}
      {asked === 'delete' && <DeleteDatabase it={it} onClose={closed} />}
    </div>
  );
}
