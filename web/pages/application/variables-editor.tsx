import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Button } from '../../parts/button.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Notice } from '../../parts/notice.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import { difference, faultOfValue, mostVariables, parsed, rebased, textOf } from './env-text.ts';
import type { Variables } from './env-text.ts';
import { VariableTable } from './variable-table.tsx';

export interface StoredVariables {
  readonly variables: Variables;
  /** The version of the object that has them. */
  readonly version: string;
}

interface VariablesEditorProps {
  readonly stored: StoredVariables;
  /** Values are not sent to this reader. */
  readonly isMasked: boolean;
  /** Why nothing can be changed. */
  readonly why: string | undefined;
  /** What saving causes. */
  readonly effect: string;
  /** What is said once they are saved. */
  readonly saved: string;
  /** What the reader is told where there is none. */
  readonly empty: ComponentChildren;
  /** Stores a change, if the object has still the version that it is based on. Returns the variables that are stored. */
  readonly send: (changed: ChangedVariables) => Promise<Variables>;
}

export interface ChangedVariables {
  /** What differs; `null` removes a variable. */
  readonly changes: Readonly<Record<string, string | null>>;
  /** All of them, as they are to be. */
  readonly variables: Variables;
  /** The version that the change is based on. */
  readonly version: string;
}

/** Variables as a table and as the text of a `.env` file, with what differs from what is stored. */
export function VariablesEditor(props: VariablesEditorProps): VNode {
  const { stored, isMasked, why, effect, saved, empty, send } = props;
  const { messages } = useConsole();
  const act = useAct();
  const [base, setBase] = useState<StoredVariables>(stored);
  const [draft, setDraft] = useState<Variables>(stored.variables);
  const [text, setText] = useState<string>();
  const [conflicts, setConflicts] = useState<readonly string[]>([]);
  const [isRevealed, setRevealed] = useState(false);
  const inText = text === undefined ? undefined : parsed(text);
  const isHalfTyped = inText !== undefined && inText.faults.length > 0;
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
    // the object changed otherwise: what is typed stays as it is
    if (Object.keys(difference(base.variables, stored.variables)).length === 0) {
      setBase(stored);
      return;
    }
    // a line that is not whole is no variable that was removed
    if (isHalfTyped) return;
    const next = rebased(base.variables, variables, stored.variables);
    setBase(stored);
    setDraft(next.draft);
    setConflicts(next.conflicts);
    if (text !== undefined) setText(textOf(next.draft));
  }, [stored.version, isHalfTyped]);

  const discard = (): void => {
    setDraft(base.variables);
    setText(text === undefined ? undefined : textOf(base.variables));
    setConflicts([]);
    act.clear();
  };
  const save = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      const env = await send({ changes, variables, version: base.version });
      setBase({ ...base, variables: env });
      setDraft(env);
      if (text !== undefined) setText(textOf(env));
    });
    if (!isDone) return;
    setConflicts([]);
    messages.say(saved);
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
            empty={empty}
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
        effect={effect}
        busy={act.busy}
        why={faults[0] ?? why}
        onDiscard={discard}
      />
    </div>
  );
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
