import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Application, Deployment } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Command } from '../../parts/command.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Facts } from '../../parts/card.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Time } from '../../parts/time.tsx';

interface RollBackProps {
  readonly it: Pick<Application, 'id' | 'name' | 'current_deployment_id'>;
  readonly to: Deployment;
  readonly onClose: () => void;
}

/** Asks before an application runs what an earlier deployment ran, and says what that was. */
export function RollBack({ it, to, onClose }: RollBackProps): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const current = it.current_deployment_id;
  const serving = useRead(
    async () =>
      current === null ? undefined : call(login, 'GET', '/api/v1/deployments/{id}', { path: { id: current } }),
    [current],
  ).data;
  const rollBack = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('deployment', () =>
        call(login, 'POST', '/api/v1/applications/{id}/rollback', {
          path: { id: it.id },
          body: { deployment_id: to.id },
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Dialog
      title={`Roll back ${it.name} to #${to.number}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" busy={act.busy} onClick={() => void rollBack()}>
            Roll back to #{to.number}
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <p>
        A new deployment runs the image and the configuration of #{to.number}. What serves now goes on until it is
        ready.
      </p>
      <Facts
        of={[
          ['Then', <What key="then" of={to} />],
          ['Now', serving === undefined ? 'nothing serves' : <What key="now" of={serving} />],
        ]}
      />
      <Command text={`setpoint rollback ${shellQuoted(it.name)} --to ${to.number}`} />
    </Dialog>
  );
}

function What({ of }: { of: Pick<Deployment, 'number' | 'image' | 'commit' | 'commit_message' | 'queued_at'> }): VNode {
  return (
    <>
      #{of.number}, <code>{of.commit?.slice(0, 8) ?? of.image ?? 'no image'}</code> {of.commit_message ?? ''},{' '}
      <Time at={of.queued_at} />
    </>
  );
}
