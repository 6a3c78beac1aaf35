import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { whyNotVerb } from '../../frame/application-verbs.ts';
import { useConsole } from '../../frame/context.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Terminal } from '../../parts/terminal.tsx';
import { openTerminalSession } from '../terminal-session.ts';
import type { TerminalSession } from '../terminal-session.ts';
import type { TabProps } from './tab-props.ts';

interface Numbered extends TerminalSession {
  readonly number: number;
}

const mostSessions = 6;

/** Shells in instances of an application, several side by side. They end with the page. */
export function TerminalTab({ it, query }: TabProps): VNode {
  const { login } = useConsole();
  const rank = useRank(it.project_id);
  const [sessions, setSessions] = useState<readonly Numbered[]>([]);
  const [shown, setShown] = useState(0);
  const [instance, setInstance] = useState(query.get('instance') ?? '');
  const last = useRef(0);
  const instances =
    useRead(
      () => call(login, 'GET', '/api/v1/applications/{id}/instances', { path: { id: it.id } }),
      [it.id, it.ready_replicas, it.deployment_id],
    ).data ?? [];
  const ready = instances.filter((one) => one.ready);
  const why =
    whyNotVerb('terminal', it, rank) ??
    (it.ready_replicas === 0 ? 'No instance is ready' : undefined) ??
    (sessions.length >= mostSessions ? `${mostSessions} are open: close one first` : undefined);

  const open = (): void => {
    const number = (last.current += 1);
    const session = openTerminalSession(login, async () => {
      const { sessionId } = await call(login, 'POST', '/api/v1/applications/{id}/terminal', {
        path: { id: it.id },
        body: { cols: 80, rows: 24, ...(instance !== '' && { instance_id: instance }) },
      });
      return sessionId;
    });
    setSessions([...sessions, { number, ...session }]);
    setShown(number);
  };
  const all = useRef(sessions);
  all.current = sessions;
  useEffect(
    () => () => {
      for (const session of all.current) session.close();
    },
    [],
  );
  const close = (session: Numbered): void => {
    session.close();
    const rest = sessions.filter((one) => one !== session);
    setSessions(rest);
    setShown(rest.at(-1)?.number ?? 0);
  };
  const current = sessions.find(({ number }) => number === shown);
  return (
    <div class="stack">
      <div class="row">
        <select
          class="input input-auto"
          aria-label="Instance"
          value={instance}
          onChange={({ currentTarget }) => setInstance(currentTarget.value)}
        >
          <option value="">The first that is ready</option>
          {ready.map((one) => (
            <option key={one.id} value={one.id}>
              {[one.service, one.replica].filter((part) => part !== null).join('/')}
            </option>
          ))}
        </select>
        <Button icon="terminal" tone={sessions.length === 0 ? 'primary' : undefined} why={why} onClick={open}>
          New session
        </Button>
        <div class="button-group" role="group" aria-label="Sessions">
          {sessions.map(({ number }) => (
            <Button key={number} isSmall pressed={number === shown} onClick={() => setShown(number)}>
              Session {number}
            </Button>
          ))}
        </div>
      </div>
      {current === undefined ? (
        <EmptyState title="No session" command={`setpoint exec ${shellQuoted(it.name)}`}>
          A session is a shell in a running instance. What is changed in it is gone with the instance, and the audit log
          keeps that it was opened.
        </EmptyState>
      ) : (
        <Terminal
          key={current.number}
          label={`Terminal in ${it.name}, session ${current.number}`}
          link={current.link}
          state={current.state.value.text}
          actions={
            <Button isSmall onClick={() => close(current)}>
              Close
            </Button>
          }
        />
      )}
    </div>
  );
}
