import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { restoreVerbs } from '#rules/restore.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { volumesOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { ObjectOf } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Facts } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Notice } from '../../parts/notice.tsx';
import { exactTime } from '../../parts/relative-time.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { Status } from '../../parts/status.tsx';
import { lookOf } from '../../parts/status-words.ts';
import { Steps } from '../../parts/steps.tsx';
import { Time } from '../../parts/time.tsx';
import { importedText, isUnderWay, restoreSteps, touchedNow } from './restore-steps.ts';

type Restore = ObjectOf<'restore'>;
type Asked = 'cancel' | 'switch' | 'back' | undefined;

/** A restore: its steps, what the present one touches, and what somebody can decide. */
export function RestoreView({ it }: { readonly it: Restore }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const [asked, setAsked] = useState<Asked>();
  const backup = it.backup_id === null ? undefined : store.get('backup', it.backup_id);
  const waits = it.conditions.find(({ type, status }) => type === 'Reconciling' && status === 'true')?.message ?? '';
  return (
    <div class="stack">
      <Steps label="Steps of the restore" steps={restoreSteps(it, backup?.resource_id)} />
      <Notice shape={lookOf('restore', it).shape}>
        <p>{it.error?.message ?? touchedNow(it)}</p>
        {isUnderWay(it.status) && waits !== '' && <p class="small">Waits for {waits}</p>}
      </Notice>
      <Facts
        of={[
          ['Status', <Status key="status" kind="restore" object={it} />],
          [it.kind === 'database' ? 'Database' : 'Volume', <TargetLink key="target" it={it} />],
          ['Of the dump', importedText(it.source)],
          [
            'Of the backup',
            it.backup_id === null ? undefined : backup === undefined ? (
              <code key="backup">{it.backup_id.slice(0, 8)}</code>
            ) : (
              <span key="backup">
                {backup.name}, <Time at={backup.completed_at ?? backup.requested_at} />
              </span>
            ),
          ],
          ['As of', it.target_time === null ? undefined : exactTime(it.target_time)],
          ['Last commit in it', it.recovered_until === null ? undefined : exactTime(it.recovered_until)],
          [
            'Look at it at',
            it.internal_host === null ? undefined : (
              <span key="host" class="row">
                <code>{it.internal_host}</code>
                <Copy text={it.internal_host} label="Copy the name inside" />
              </span>
            ),
          ],
          ['Asked', <Time key="asked" at={it.requested_at} />],
          ['Ended', it.finished_at === null ? undefined : <Time key="ended" at={it.finished_at} />],
          ['Former data', <FormerVolume key="former" it={it} />],
        ]}
      />
      <Decisions it={it} onAsk={setAsked} />
      {asked === 'cancel' && <CancelRestore it={it} onClose={() => setAsked(undefined)} />}
      {asked === 'switch' && <SwitchDatabase it={it} onClose={() => setAsked(undefined)} />}
      {asked === 'back' && <SwitchBack it={it} onClose={() => setAsked(undefined)} />}
      <p class="small">
        <a href={href(['backups', 'restores'])}>All restores</a>
      </p>
    </div>
  );
}

/** The volume that has the former data, while it is there. */
function useFormer(it: Restore): ObjectOf<'volume'> | undefined {
  const { store } = useConsole();
  useList(volumesOf(it.project_id), 'volume');
  return it.former_volume_id === null ? undefined : store.get('volume', it.former_volume_id);
}

function FormerVolume({ it }: { readonly it: Restore }): VNode {
  const former = useFormer(it);
  if (it.is_drill) return <span class="quiet">in its place: this is a trial</span>;
  if (it.former_volume_id === null) return <span class="quiet">in its place</span>;
  if (former === undefined) return <span class="quiet">is gone</span>;
  return (
    <span>
      volume {former.name}
      {former.expires_at !== null && (
        <>
          , goes <Time at={former.expires_at} />
        </>
      )}
    </span>
  );
}

function TargetLink({ it }: { readonly it: Restore }): VNode {
  const href = useHref();
  if (it.database_id !== null) return <a href={href(['databases', it.database_id])}>{it.name}</a>;
  return <a href={href(['volumes'], { q: it.name })}>{it.name}</a>;
}

function Decisions({ it, onAsk }: { readonly it: Restore; readonly onAsk: (asked: Asked) => void }): VNode | null {
  const rank = useRank(it.project_id);
  const former = useFormer(it);
  const below = whyBelow(rank, 'admin');
  if (isUnderWay(it.status))
    return (
      <div class="actions">
        {it.status === 'ready_to_switch' && (
          <Button tone="primary" why={below} onClick={() => onAsk('switch')}>
            Serve what was recovered
          </Button>
        )}
        <Button why={whyNot(restoreVerbs, 'cancel', it) ?? below} onClick={() => onAsk('cancel')}>
          Cancel the restore
        </Button>
      </div>
    );
  if (it.status !== 'completed' || it.database_id === null || former === undefined) return null;
  return (
    <div class="actions">
      <Button why={below} onClick={() => onAsk('back')}>
        Go back to the former data
      </Button>
    </div>
  );
}

interface DialogProps {
  readonly it: Restore;
  readonly onClose: () => void;
}

function CancelRestore({ it, onClose }: DialogProps): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const cancel = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('restore', () => call(login, 'POST', '/api/v1/restores/{id}/cancel', { path: { id: it.id } })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Cancel the restore of ${it.name}`}
      verb="Cancel the restore"
      goes={['What was restored so far, with the new volume']}
      stays={[`${it.name} with the data that it serves now`, ...(it.backup_id === null ? [] : ['The backup'])]}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void cancel()}
      onClose={onClose}
    />
  );
}

function SwitchDatabase({ it, onClose }: DialogProps): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const id = it.database_id ?? it.resource_id;
  const change = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('database', () => call(login, 'POST', '/api/v1/databases/{id}/switch', { path: { id }, body: {} })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Let ${it.name} serve what was recovered`}
      verb={`Switch ${it.name}`}
      goes={[
        'Connections that are open: it ends, and starts on the new volume',
        'What was written after the instant, from view',
      ]}
      stays={['The former data in a volume of its own for a week: the way back', 'Its name, its port and its password']}
      type={it.name}
      command={`setpoint switch ${shellQuoted(it.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void change()}
      onClose={onClose}
    />
  );
}

function SwitchBack({ it, onClose }: DialogProps): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const id = it.database_id ?? it.resource_id;
  const change = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('database', () =>
        call(login, 'POST', '/api/v1/databases/{id}/switch', {
          path: { id },
          body: { volume_id: it.former_volume_id },
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Let ${it.name} serve its former data`}
      verb={`Switch ${it.name} back`}
      goes={['Connections that are open: it ends, and starts on its former volume']}
      stays={['What it serves now, in a volume of its own for a week', 'Its name, its port and its password']}
      type={it.name}
      command={`setpoint switch ${shellQuoted(it.name)} --back ${it.former_volume_id ?? ''}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void change()}
      onClose={onClose}
    />
  );
}
