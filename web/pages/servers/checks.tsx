import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { BodyOf } from '../body-of.ts';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Server } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import { Shape } from '../../parts/shape.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { wholeOf } from './whole-server.ts';

type HealBody = BodyOf<'healServer'>;
type Healable = NonNullable<HealBody['checks']>[number];

interface Check {
  readonly name: string;
  readonly status: 'pass' | 'warn' | 'fail';
  readonly message: string;
  readonly remediation: string | null;
  readonly auto_fixable: boolean;
}

const shapes = { pass: 'good', warn: 'warn', fail: 'bad' } as const;
const words = { pass: 'is fine', warn: 'needs a look', fail: 'is wrong' } as const;
const order = { fail: 0, warn: 1, pass: 2 } as const;
const healable: readonly Healable[] = [
  'disk',
  'orphaned_containers',
  'orphaned_networks',
  'orphaned_volumes',
  'log_storage',
];

/** What the agent finds on its machine, each finding with its remedy, and a button where the agent may heal it. */
export function Checks({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const [isRunning, setRunning] = useState(false);
  const path = { id: server.id };
  const found = useRead(async () => {
    setRunning(true);
    try {
      return await call(login, 'GET', '/api/v1/servers/{id}/diagnose', { path });
    } finally {
      setRunning(false);
    }
  }, [server.id, server.agent_status]);
  const heal = useHeal(server, found.again);
  return (
    <div class="stack">
      <Card
        title="Checks"
        actions={
          <Button busy={isRunning} icon="refresh" onClick={found.again}>
            Check again
          </Button>
        }
      >
        {found.error !== undefined && <ErrorBox error={found.error} onRetry={found.again} />}
        {heal.error !== undefined && <ErrorBox error={heal.error} />}
        {heal.told.map(({ key, text, shape }) => (
          <Notice key={key} shape={shape}>
            <p>{text}</p>
          </Notice>
        ))}
        {found.data === undefined && found.error === undefined && <Skeleton lines={8} label="Checking the server" />}
        {found.data !== undefined && (
          <CheckList checks={found.data.checks} healing={heal.healing} onHeal={(check) => void heal.run(check)} />
        )}
      </Card>
      {wholeOf(server)?.ssh_key_id !== null && <Validation server={server} />}
    </div>
  );
}

interface Told {
  readonly key: string;
  readonly text: string;
  readonly shape: 'good' | 'bad' | 'info' | 'busy';
}

function useHeal(server: Server, again: () => void) {
  const { login } = useConsole();
  const act = useAct();
  const [healing, setHealing] = useState<Healable>();
  const [told, setTold] = useState<readonly Told[]>([]);
  const run = async (check: Healable): Promise<void> => {
    setHealing(check);
    await act.run(async () => {
      const { status, actions } = await call(login, 'POST', '/api/v1/servers/{id}/heal', {
        path: { id: server.id },
        body: { checks: [check] },
      });
      const done = actions.map((one, at): Told => ({
        key: `${at} ${one.message}`,
        text: one.message,
        shape: one.status === 'failed' ? 'bad' : one.status === 'done' ? 'good' : 'info',
      }));
      if (status === 'running')
        done.push({ key: 'running', text: 'It goes on: check again in a moment', shape: 'busy' });
      else if (done.length === 0) done.push({ key: 'none', text: 'There was nothing to heal', shape: 'info' });
      setTold(done);
    });
    setHealing(undefined);
    again();
  };
  return { run, healing, told, error: act.error };
}

interface CheckListProps {
  readonly checks: readonly Check[];
  readonly healing?: Healable | undefined;
  readonly onHeal?: (check: Healable) => void;
}

function CheckList({ checks, healing, onHeal }: CheckListProps): VNode {
  return (
    <ul class="conditions">
      {[...checks]
        .sort((a, b) => order[a.status] - order[b.status])
        .map(({ name, status, message, remediation, auto_fixable: isFixable }) => {
          const check = healable.find((one) => one === name);
          return (
            <li key={name} class="condition">
              <Shape of={shapes[status]} />
              <div class="stack-tight">
                <span>
                  <span class="strong">{labelOf(name)}</span> <span class="sr-only">{words[status]}: </span>
                  {message}
                </span>
                {remediation !== null && status !== 'pass' && <span class="quiet small">{remediation}</span>}
              </div>
              {isFixable && check !== undefined && onHeal !== undefined ? (
                <Button
                  isSmall
                  busy={healing === check}
                  why={healing !== undefined && healing !== check ? 'Another finding is being healed' : undefined}
                  onClick={() => onHeal(check)}
                >
                  Heal {labelOf(name).toLowerCase()}
                </Button>
              ) : (
                <span />
              )}
            </li>
          );
        })}
    </ul>
  );
}

/** Logs in by SSH and looks whether the machine can be used; changes nothing on it. */
function Validation({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [found, setFound] = useState<Awaited<ReturnType<typeof ask>>>();
  const ask = () => call(login, 'POST', '/api/v1/servers/{id}/validate', { path: { id: server.id } });
  const look = async (): Promise<void> => {
    await act.run(async () => setFound(await ask()));
  };
  return (
    <Card
      title="By SSH"
      actions={
        <Button busy={act.busy} onClick={() => void look()}>
          Look by SSH
        </Button>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {found === undefined && act.error === undefined && (
        <p class="quiet">
          Logs in with the key of the server and looks whether the machine can be used. Nothing is changed.
        </p>
      )}
      {found !== undefined && (
        <>
          {found.host_key !== null && (
            <p class="small">
              Host key {found.host_key.type} <code>{found.host_key.fingerprint}</code>
              {found.host_key.is_pinned ? '' : ', pinned just now'}
            </p>
          )}
          <CheckList checks={found.checks} />
        </>
      )}
    </Card>
  );
}
