import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { labelOfFunctionVerb, whyNotFunctionVerb } from '../../frame/function-verbs.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Button } from '../../parts/button.tsx';
import { CodeInput, codeKeys } from '../../parts/code-input.tsx';
import { Diff } from '../../parts/diff.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { shownPath } from '../served-fields.ts';
import { dependenciesHelp, runtimes } from './runtimes.ts';
import type { Fn, FnDetail, TabProps } from './tab-props.ts';
import { useDetail } from './use-detail.ts';

const mostCode = 128 * 1024;

/** The code of a function and what it depends on, and the button that builds both. */
export function CodeTab({ it }: TabProps): VNode {
  const detail = useDetail(it);
  if (detail.data === undefined)
    return detail.error === undefined ? (
      <Skeleton label="Reading the code" />
    ) : (
      <ErrorBox error={detail.error} onRetry={detail.again} />
    );
  return <Editor it={it} stored={detail.data} />;
}

interface Draft {
  readonly code: string;
  readonly dependencies: string;
}

function draftOf({ code, dependencies }: FnDetail): Draft {
  return { code, dependencies: dependencies ?? '' };
}

/** What of a draft differs from what is stored, as it is sent. */
function changesBetween(base: Draft, draft: Draft): { code?: string; dependencies?: string | null } {
  const dependencies = draft.dependencies.trim() === '' ? null : draft.dependencies;
  return {
    ...(draft.code !== base.code && { code: draft.code }),
    ...(draft.dependencies !== base.dependencies && { dependencies }),
  };
}

function Editor({ it, stored }: { readonly it: Fn; readonly stored: FnDetail }): VNode {
  const { login, store, messages } = useConsole();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [base, setBase] = useState({ ...draftOf(stored), version: stored.resource_version });
  const [draft, setDraft] = useState<Draft>(base);
  const [isCompared, setCompared] = useState(false);
  const [deploys, setDeploys] = useState(true);
  const changes = changesBetween(base, draft);
  const isChanged = Object.keys(changes).length > 0;
  const theirs = Object.keys(changesBetween(base, draftOf(stored)));
  useUnsaved(isChanged, 'The code has changes that are not saved. Leave them?');
  // other settings may change meanwhile: only another code is a conflict
  useEffect(() => {
    if (stored.resource_version === base.version || (isChanged && theirs.length > 0)) return;
    setBase({ ...draftOf(stored), version: stored.resource_version });
    if (!isChanged) setDraft(draftOf(stored));
  }, [stored.resource_version]);
  const why = whyNotFunctionVerb('update', it, rank);
  const set = (change: Partial<Draft>): void => {
    act.clear();
    setDraft({ ...draft, ...change });
  };
  const discard = (): void => {
    setBase({ ...draftOf(stored), version: stored.resource_version });
    setDraft(draftOf(stored));
    act.clear();
  };
  const send = async (thenDeploys: boolean): Promise<void> => {
    setDeploys(thenDeploys);
    const isDone = await act.run(async () => {
      if (isChanged) {
        const saved = await store.answer('function', () =>
          call(login, 'PUT', '/api/v1/functions/{id}', { path: { id: it.id }, body: changes, ifMatch: base.version }),
        );
        setBase({ ...draft, version: saved.resource_version });
      }
      if (thenDeploys)
        await store.answer('function', () =>
          call(login, 'POST', '/api/v1/functions/{id}/deploy', { path: { id: it.id } }),
        );
    });
    if (isDone)
      messages.say(thenDeploys ? `A version of ${it.name} is being built` : `The code of ${it.name} is saved`);
  };
  const faultOf = (field: string): string | undefined =>
    act.error?.details?.find((one) => one.field === field)?.message;
  const isElsewhere = faultOf('code') === undefined && faultOf('dependencies') === undefined;
  const { label, handler } = runtimes[it.runtime];
  return (
    <div class="stack">
      {why !== undefined && (
        <Notice shape="info">
          <p>{why}</p>
        </Notice>
      )}
      {isChanged && theirs.length > 0 && (
        <Notice shape="warn">
          <p>Somebody else has changed {theirs.join(' and ')} meanwhile. “Discard” takes what is stored.</p>
        </Notice>
      )}
      <Form
        label={`Code of ${it.name}`}
        isWide
        error={isElsewhere ? act.error : undefined}
        onSubmit={() => {
          if (why === undefined && !act.busy) void send(true);
          return true;
        }}
        foot={
          <>
            <Button type="submit" tone="primary" busy={act.busy && deploys} why={why}>
              {isChanged ? 'Save and deploy' : labelOfFunctionVerb('deploy')}
            </Button>
            <Button
              busy={act.busy && !deploys}
              why={why ?? (isChanged ? undefined : 'Nothing has changed')}
              onClick={() => void send(false)}
            >
              Save
            </Button>
            {isChanged && (
              <>
                <Button pressed={isCompared} onClick={() => setCompared(!isCompared)}>
                  Difference
                </Button>
                <Button onClick={discard}>Discard</Button>
              </>
            )}
          </>
        }
      >
        <Field
          label={`Code for ${label}`}
          help={`${handler} ${codeKeys}`}
          error={faultOf('code')}
          count={{ used: draft.code.length, most: mostCode }}
          isRequired
        >
          {(control) => (
            <CodeInput
              control={control}
              value={draft.code}
              lines={16}
              isOff={why !== undefined}
              onInput={(code) => set({ code })}
            />
          )}
        </Field>
        <Field label="Dependencies" help={dependenciesHelp(it.runtime)} error={faultOf('dependencies')} isOptional>
          {(control) => (
            <CodeInput
              control={control}
              value={draft.dependencies}
              lines={3}
              isOff={why !== undefined}
              onInput={(dependencies) => set({ dependencies })}
            />
          )}
        </Field>
        {isCompared && isChanged && (
          <>
            {draft.code !== base.code && <Diff label="Difference of the code" before={base.code} after={draft.code} />}
            {draft.dependencies !== base.dependencies && (
              <Diff label="Difference of the dependencies" before={base.dependencies} after={draft.dependencies} />
            )}
          </>
        )}
        {isChanged && (
          <ShowAs
            origin={location.origin}
            request={{ method: 'PUT', path: shownPath(login, `/api/v1/functions/${it.id}`), body: changes }}
            command={`setpoint fn deploy ${shellQuoted(it.name)} --file FILE`}
          />
        )}
      </Form>
    </div>
  );
}
