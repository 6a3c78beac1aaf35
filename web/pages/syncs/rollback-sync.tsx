import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { followedBy } from './sync-words.ts';
import type { Sync } from './sync-words.ts';

interface RollbackProps {
  readonly it: Sync;
  /** One of its applied commits. */
  readonly commit: string;
  readonly onClose: () => void;
}

/** Asks before a sync goes back to a commit: later ones are not applied until it is released. */
export function RollbackSync({ it, commit, onClose }: RollbackProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const short = commit.slice(0, 8);
  const back = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('sync', () =>
        call(login, 'POST', '/api/v1/syncs/{id}/rollback', { path: { id: it.id }, body: { commit } }),
      ),
    );
    if (!isDone) return;
    messages.say(`${it.name} goes back to ${short}, and stays there`);
    onClose();
  };
  return (
    <Confirm
      title={`Roll ${it.name} back to ${short}`}
      verb={`Roll back to ${short}`}
      goes={[`What later commits of ${followedBy(it)} declared, where ${short} declares it otherwise`]}
      stays={[
        'Volumes and databases that it does not declare: a step that loses data waits until it is forced',
        `The sync stays with ${short} until it is released: commits that are pushed meanwhile are not applied`,
      ]}
      command={`setpoint sync rollback ${shellQuoted(it.name)} --to ${commit}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void back()}
      onClose={onClose}
    />
  );
}
