import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { whyNotVerb } from '../../frame/application-verbs.ts';
import { useConsole } from '../../frame/context.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import type { TabProps } from './tab-props.ts';
import { VariablesEditor } from './variables-editor.tsx';

/** The environment variables of an application, as a table and as the text of a `.env` file. */
export function EnvironmentTab({ it }: TabProps): VNode {
  const { login } = useConsole();
  const rank = useRank(it.project_id);
  const version = it.resource_version;
  const read = useRead(
    async () => ({ version, ...(await call(login, 'GET', '/api/v1/applications/{id}/env', { path: { id: it.id } })) }),
    // another role sees what this one does not
    [it.id, version, rank === 'viewer'],
  );
  if (read.error !== undefined && read.data === undefined) return <ErrorBox error={read.error} onRetry={read.again} />;
  if (read.data === undefined) return <Skeleton label="Reading variables" />;
  return (
    <VariablesEditor
      key={String(read.data.masked)}
      stored={{ variables: read.data.env, version: read.data.version }}
      isMasked={read.data.masked}
      why={read.data.masked ? 'Your role sees the names only' : whyNotVerb('merge_env', it, rank)}
      effect={effectOf(it)}
      saved={it.run === 'running' ? 'Saved: a deployment with the new variables is on its way' : 'Saved'}
      empty={
        <EmptyState title="No variables" command="setpoint env set APPLICATION NAME=VALUE">
          Variables configure an application without a change of its image. A value can take what another object knows,
          such as {'${databases.db.url}'}. “Text” takes a whole .env file.
        </EmptyState>
      }
      send={async ({ changes, version: base }) =>
        (
          await call(login, 'PATCH', '/api/v1/applications/{id}/env', {
            path: { id: it.id },
            body: changes,
            ifMatch: base,
          })
        ).env
      }
    />
  );
}

function effectOf({ run, replicas }: TabProps['it']): string {
  if (run !== 'running') return 'used when it starts next';
  return `saving rolls out ${replicas === 1 ? 'the instance' : `${replicas} instances`} with them`;
}
