import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { serverVerbs } from '#rules/server.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import type { Server } from '../../model.ts';
import { openTerminalSession } from '../terminal-session.ts';
import type { TerminalSession } from '../terminal-session.ts';
import { Button } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Shape } from '../../parts/shape.tsx';
import { Terminal } from '../../parts/terminal.tsx';
import { whyWithoutAgent } from './whole-server.ts';

/** A shell on the machine of a server. It begins by a click, as it is recorded that it was opened. */
export function ServerTerminal({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const [session, setSession] = useState<TerminalSession>();
  const why = whyNot(serverVerbs, 'terminal', server) ?? whyWithoutAgent(server);
  useEffect(() => () => session?.close(), [session]);
  const open = (): void => {
    setSession(
      openTerminalSession(login, async () => {
        const made = await call(login, 'POST', '/api/v1/servers/{id}/terminal', { path: { id: server.id }, body: {} });
        return made.sessionId;
      }),
    );
  };
  const start = (
    <Button tone="primary" icon="terminal" why={why} onClick={open}>
      {session === undefined ? 'Open a terminal' : 'New session'}
    </Button>
  );
  if (session === undefined)
    return (
      <EmptyState
        title="A terminal on the machine"
        action={start}
        command={`setpoint shell ${shellQuoted(server.name)}`}
      >
        A shell as the user of the agent. That it was opened and closed is in the audit log; it ends after fifteen
        minutes without input and output.
      </EmptyState>
    );
  const { state, text } = session.state.value;
  return (
    <Terminal
      label={`Terminal of ${server.name}`}
      link={session.link}
      state={
        <span class="status" role="status">
          <Shape of={state === 'open' ? 'good' : state === 'opening' ? 'busy' : state === 'failed' ? 'bad' : 'idle'} />
          {text}
        </span>
      }
      actions={state === 'ended' || state === 'failed' ? start : undefined}
    />
  );
}
