import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { whyNotVerb } from '../../frame/application-verbs.ts';
import { useConsole } from '../../frame/context.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Notice } from '../../parts/notice.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import type { TabProps } from './tab-props.ts';
import { difference, faultOfValue, mostVariables, parsed, rebased, textOf } from './env-text.ts';
import type { Variables } from './env-text.ts';
import { VariableTable } from './variable-table.tsx';

interface Base {
  readonly variables: Variables;
  /** The version of the application that has them. */
  readonly version: string;
}

/** The environment variables of an application, as a table and as the text of a `.env` file. */
export function EnvironmentTab({ it }: TabProps): VNode {
  const { login } = useConsole();
  const rank = useRank(it.project_id);
  const version = it.resource_version;
  const read = useRead(
    async () => ({ version, ...(await call(login, 'GET', '/api/v1/applications/{id}/env', { path: { id: it.id } })) }),
    [it.id, version],
  );
  if (read.error !== undefined && read.data === undefined) return <ErrorBox error={read.error} onRetry={read.again} />;
  if (read.data === undefined) return <Skeleton label="Reading variables" />;
  const why = read.data.masked ? 'Your role sees the names only' : whyNotVerb('merge_env', it, rank);
  return (
    <Editor
      it={it}
      stored={{ variables: read.data.env, version: read.data.version }}
      isMasked={read.data.masked}
      why={why}
    />
  );
}

interface EditorProps {
  readonly it: TabProps['it'];
  readonly stored: Base;
  /** Values are not sent to this reader. */
  readonly isMasked: boolean;
  /** Why nothing can be changed. */
  readonly why: string | undefined;
}

function Editor({ it, stored, isMasked, why }: EditorProps): VNode {
  const { login, router, messages } = useConsole();
  const act = useAct();
  const [base, setBase] = useState<Base>(stored);
  const [draft, setDraft] = useState<Variables>(stored.variables);
  const [text, setText] = useState<string>();
  const [conflicts, setConflicts] = useState<readonly string[]>([]);
  const [isRevealed, setRevealed] = useState(false);
  const inText = text === undefined ? undefined : parsed(text);
  const variables = inText?.variables ?? draft;
  const changes = difference(base.variables, variables);
  const isChanged = Object.keys(changes).length > 0;
  const faults = [
    ...(inText?.faults.map(({ line, message }) => `Line ${line}: ${message}`) ?? []),
    ...Object.entries(variables).flatMap(([key, value]) => {
      const fault = faultOfValue(value);
      return fault === undefined ? [] : [`${key}: ${fault}`];
    }),
    ...(Object.keys(variables).length > mostVariables
      ? [`${Object.keys(variables).length} variables: at most ${mostVariables} are kept`]
      : []),
  ];

  // what another person stored meanwhile comes under the changes of this one
  useEffect(() => {
    if (stored.version === base.version) return;
    const next = rebased(base.variables, variables, stored.variables);
    setBase(stored);
    setDraft(next.draft);
    setConflicts(next.conflicts);
    if (text !== undefined) setText(textOf(next.draft));
  }, [stored.version]);
  useEffect(() => {
    router.protect(isChanged ? () => confirm('The variables have changes that are not saved. Leave them?') : undefined);
    return () => router.protect(undefined);
  }, [isChanged]);

  const discard = (): void => {
    setDraft(base.variables);
    setText(text === undefined ? undefined : textOf(base.variables));
    setConflicts([]);
    act.clear();
  };
  const save = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      const { env } = await call(login, 'PATCH', '/api/v1/applications/{id}/env', {
        path: { id: it.id },
        body: changes,
        ifMatch: base.version,
      });
      setBase({ ...base, variables: env });
      setDraft(env);
      if (text !== undefined) setText(textOf(env));
    });
    if (!isDone) return;
    setConflicts([]);
    messages.say(it.run === 'running' ? 'Saved: a deployment with the new variables is on its way' : 'Saved');
  };
  return (
    <div class="stack">
      {isMasked && (
        <Notice shape="info">
          <p>Your role sees the names of variables, and not what they hold.</p>
        </Notice>
      )}
      {conflicts.length > 0 && (
        <Notice shape="warn">
          <p>
            Somebody else has changed {conflicts.join(', ')} meanwhile. Saving puts your{' '}
            {conflicts.length === 1 ? 'value' : 'values'} in place; “Discard” takes what is stored.
          </p>
        </Notice>
      )}
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <div class="row-apart">
        <div class="button-group" role="group" aria-label="Form of the variables">
          <Button
            isSmall
            pressed={text === undefined}
            why={faults.length > 0 && text !== undefined ? 'Mend the text first' : undefined}
            onClick={() => {
              setDraft(variables);
              setText(undefined);
            }}
          >
            Table
          </Button>
          <Button
            isSmall
            pressed={text !== undefined}
            why={isMasked ? 'Your role sees the names only' : undefined}
            onClick={() => setText(text ?? textOf(draft))}
          >
            Text
          </Button>
        </div>
        {!isMasked && text === undefined && (
          <Button
            isSmall
            icon={isRevealed ? 'hide' : 'reveal'}
            pressed={isRevealed}
            onClick={() => setRevealed(!isRevealed)}
          >
            Show values
          </Button>
        )}
      </div>
      <form
        id="environment"
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (isChanged && faults.length === 0 && why === undefined) void save();
        }}
        onKeyDown={(event) => {
          if (!(event.ctrlKey || event.metaKey) || event.key !== 's') return;
          event.preventDefault();
          event.currentTarget.requestSubmit();
        }}
      >
        {text === undefined ? (
          <VariableTable
            base={base.variables}
            draft={draft}
            isRevealed={isRevealed}
            isMasked={isMasked}
            why={why}
            onChange={setDraft}
          />
        ) : (
          <div class="field">
            <label class="field-label" for="environment-text">
              All variables, as a .env file has them
            </label>
            <textarea
              id="environment-text"
              class="input environment-text"
              rows={18}
              spellcheck={false}
              autocomplete="off"
              readOnly={why !== undefined}
              value={text}
              aria-invalid={faults.length > 0}
              aria-describedby="environment-faults"
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
            <p class="field-help">This is all of them: a variable whose line goes is removed.</p>
          </div>
        )}
        <ul id="environment-faults" class="tone-bad" role="status">
          {faults.map((fault) => (
            <li key={fault}>{fault}</li>
          ))}
        </ul>
      </form>
      <SaveBar
        form="environment"
        changes={fieldChanges(shownOf(base.variables, isRevealed), shownOf(variables, isRevealed, base.variables))}
        effect={effectOf(it)}
        busy={act.busy}
        why={faults[0] ?? why}
        onDiscard={discard}
      />
    </div>
  );
}

function effectOf({ run, replicas }: TabProps['it']): string {
  if (run !== 'running') return 'used when it starts next';
  return `saving rolls out ${replicas === 1 ? 'the instance' : `${replicas} instances`} with them`;
}

/** Variables as a difference shows them: unless values are revealed, only that they changed. */
function shownOf(variables: Variables, isRevealed: boolean, before?: Variables): Variables {
  if (isRevealed) return variables;
  return Object.fromEntries(
    Object.entries(variables).map(([key, value]) => [
      key,
      before !== undefined && before[key] !== value ? '•••• (new)' : '••••',
    ]),
  );
}
