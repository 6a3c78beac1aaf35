import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyNotDatabaseVerb } from '../../frame/database-verbs.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Button } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Terminal } from '../../parts/terminal.tsx';
import { openTerminalSession } from '../terminal-session.ts';
import type { TerminalSession } from '../terminal-session.ts';
import type { TabProps } from './tab-props.ts';

/** The client of the engine in the container of a database, logged in. It ends with the page. */
export function TerminalTab({ it }: TabProps): VNode {
  const { login } = useConsole();
  const rank = useRank(it.project_id);
  const [session, setSession] = useState<TerminalSession>();
  const last = useRef<TerminalSession | undefined>(undefined);
  const change = (next: TerminalSession | undefined): void => {
    last.current?.close();
    last.current = next;
    setSession(next);
  };
  useEffect(() => () => last.current?.close(), []);
  const why =
    whyNotDatabaseVerb('terminal', it, rank) ??
    (it.status === 'running' ? undefined : 'It does not run yet: its client has nothing to log in to');
  const open = (): void =>
    change(
      openTerminalSession(login, async () => {
        const { sessionId } = await call(login, 'POST', '/api/v1/databases/{id}/terminal', {
          path: { id: it.id },
          body: { cols: 80, rows: 24 },
        });
        return sessionId;
      }),
    );
  const button = (
    <Button icon="terminal" tone={session === undefined ? 'primary' : undefined} why={why} onClick={open}>
      {session === undefined ? 'Open its client' : 'New session'}
    </Button>
  );
  if (session === undefined)
    return (
      <EmptyState title="No session" action={button} command={`setpoint db shell ${shellQuoted(it.name)}`}>
        A session is the client of its engine in its container, logged in as its user. The audit log keeps that it was
        opened.
      </EmptyState>
    );
  return (
    <div class="stack">
      <Terminal
        key={session.link}
        label={`Client of ${it.name}`}
        link={session.link}
        state={session.state.value.text}
        actions={
          <>
            {button}
            <Button isSmall onClick={() => change(undefined)}>
              Close
            </Button>
          </>
        }
      />
    </div>
  );
}
