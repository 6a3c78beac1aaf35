import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyNotFunctionVerb } from '../../frame/function-verbs.ts';
import { useRank } from '../../frame/use-rank.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { VariablesEditor } from '../application/variables-editor.tsx';
import type { TabProps } from './tab-props.ts';
import { useDetail } from './use-detail.ts';

/** The variables of a function, which its next version gets. */
export function VariablesTab({ it }: TabProps): VNode {
  const { login, store } = useConsole();
  const rank = useRank(it.project_id);
  const read = useDetail(it);
  if (read.error !== undefined && read.data === undefined) return <ErrorBox error={read.error} onRetry={read.again} />;
  if (read.data === undefined) return <Skeleton label="Reading variables" />;
  const isMasked = read.data.masked;
  return (
    <VariablesEditor
      key={String(isMasked)}
      stored={{ variables: read.data.env, version: read.data.resource_version }}
      isMasked={isMasked}
      why={isMasked ? 'Your role sees the names only' : whyNotFunctionVerb('update', it, rank)}
      effect="used by the next version: deploy it after that"
      saved="Saved: the next version has them"
      empty={
        <EmptyState title="No variables">
          Variables configure a function without a change of its code. A value can take what another object knows, such
          as {'${databases.db.url}'}. “Text” takes a whole .env file.
        </EmptyState>
      }
      send={async ({ variables, version }) => {
        await store.answer('function', () =>
          call(login, 'PUT', '/api/v1/functions/{id}', {
            path: { id: it.id },
            body: { env: { ...variables } },
            ifMatch: version,
          }),
        );
        return variables;
      }}
    />
  );
}
