import type { VNode } from 'preact';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { Badge, Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

const mostSessions = 500;

/** Where one is signed in; each place can be signed out. */
export function Sessions(): VNode {
  const { login, messages } = useConsole();
  const act = useAct();
  const sessions = useRead(() => list(login, '/api/v1/auth/sessions', mostSessions), []);
  const end = async (id: string): Promise<void> => {
    await act.run(() => call(login, 'DELETE', '/api/v1/auth/sessions/{id}', { path: { id } }));
    sessions.again();
  };
  const endOthers = async (): Promise<void> => {
    await act.run(async () => {
      const { ended } = await call(login, 'DELETE', '/api/v1/auth/sessions');
      messages.say(ended === 1 ? '1 session has ended' : `${ended} sessions have ended`);
    });
    sessions.again();
  };
  const others = (sessions.data ?? []).filter(({ current }) => !current).length;
  return (
    <Card
      title="Sessions"
      actions={
        <Button
          busy={act.busy}
          why={others === 0 ? 'There is no other session' : undefined}
          onClick={() => void endOthers()}
        >
          Sign out everywhere else
        </Button>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {sessions.error !== undefined && <ErrorBox error={sessions.error} onRetry={sessions.again} />}
      {sessions.data === undefined && sessions.error === undefined && <Skeleton label="Reading sessions" />}
      {sessions.data !== undefined && (
        <Table
          label="Sessions"
          rows={sessions.data}
          keyOf={({ id }) => id}
          columns={[
            {
              id: 'agent',
              title: 'Program',
              isPrimary: true,
              cell: ({ user_agent: agent, current }) => (
                <span class="row">
                  <span class="strong">{programOf(agent)}</span>
                  {current && <Badge tone="good">this one</Badge>}
                </span>
              ),
            },
            { id: 'source', title: 'From', cell: ({ source }) => <code>{source}</code> },
            {
              id: 'since',
              title: 'Since',
              cell: ({ created_at: at }) => <Time at={at} />,
              sortBy: ({ created_at: at }) => at,
            },
            { id: 'until', title: 'Ends', cell: ({ expires_at: at }) => <Time at={at} /> },
            {
              id: 'end',
              title: 'Actions',
              isNarrow: true,
              isBare: true,
              cell: ({ id, current, user_agent: agent }) =>
                current ? (
                  ''
                ) : (
                  <Button isSmall onClick={() => void end(id)}>
                    Sign out<span class="sr-only"> {programOf(agent)}</span>
                  </Button>
                ),
            },
          ]}
        />
      )}
    </Card>
  );
}

/** A browser's description of itself in one word or two; other programs as they name themselves. */
function programOf(agent: string): string {
  const browser = /(Firefox|Edg|OPR|Chrome|Safari)\/(\d+)/.exec(agent);
  if (browser === null) return agent === '' ? 'An unnamed program' : (agent.split(' ')[0] ?? agent);
  const system = /(Windows|Mac OS X|Android|iPhone|iPad|Linux)/.exec(agent)?.[1];
  return `${browser[1] ?? ''} ${browser[2] ?? ''}${system === undefined ? '' : `, ${system}`}`;
}
