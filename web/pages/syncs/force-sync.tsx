import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { differences, losesData, lossOf } from './sync-words.ts';
import type { Sync, SyncRun } from './sync-words.ts';

interface ForceProps {
  readonly it: Sync;
  readonly runs: readonly SyncRun[];
  readonly onClose: () => void;
}

/** Asks before the steps are done that lose data, or overwrite what others have set: says by name what is lost. */
export function ForceSync({ it, runs, onClose }: ForceProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  // what is forced is of the commit whose plan the reader has seen
  const [seen] = useState(() => ({
    commit: it.commit_wanted,
    generation: it.generation,
    steps: differences(it, runs).filter(({ needsForce }) => needsForce),
  }));
  const keys = seen.steps.map(({ key }) => key);
  const hasLoss = seen.steps.some(({ key, step }) => losesData(key, step));
  const isOther = it.commit_wanted !== seen.commit || (it.generation !== seen.generation && !act.busy);
  const run = async (): Promise<void> => {
    if (isOther) return;
    const isDone = await act.run(() =>
      store.answer('sync', () =>
        call(login, 'POST', '/api/v1/syncs/{id}/sync', {
          path: { id: it.id },
          body: { force: keys, generation: seen.generation, ...(seen.commit !== null && { commit: seen.commit }) },
        }),
      ),
    );
    if (!isDone) return;
    messages.say(`${it.name} is being applied, with what was forced`);
    onClose();
  };
  return (
    <Confirm
      title={`Force ${it.name}`}
      verb={`Apply ${seen.commit?.slice(0, 8) ?? ''} with these losses`}
      goes={seen.steps.map(({ key, step }) => lossOf(key, step))}
      stays={[
        'Objects that the commit does not name and the sync has not made',
        'Of a later commit nothing is forced: it is asked for anew',
      ]}
      type={hasLoss ? it.name : undefined}
      command={`setpoint sync run ${shellQuoted(it.name)}${seen.commit === null ? '' : ` --commit ${seen.commit.slice(0, 12)}`} --force ${keys.map((key) => shellQuoted(key)).join(' ')}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void run()}
      onClose={onClose}
    >
      {isOther && (
        <Notice shape="warn">
          <p>Another commit has come, or the sync was changed meanwhile: close this, and look at what is lost now.</p>
        </Notice>
      )}
    </Confirm>
  );
}
