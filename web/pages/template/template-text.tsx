import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Diff } from '../../parts/diff.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Notice } from '../../parts/notice.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { ReportView, useReport } from './template-report.tsx';
import type { TextOf } from './use-text-of.ts';

interface TemplateTextProps {
  readonly it: ObjectOf<'template'>;
  /** As it was read last. */
  readonly stored: TextOf;
}

/** The text of a template, which its author changes. Instances stay as they are. */
export function TemplateText({ it, stored }: TemplateTextProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  /** What the draft is a change of; `read`: the last answer that it takes into account. */
  const [base, setBase] = useState({ content: stored.content, version: stored.version, read: stored });
  const [draft, setDraft] = useState(stored.content);
  const [isCompared, setCompared] = useState(false);
  const { report, error } = useReport(draft);
  const isChanged = draft !== base.content;
  const take = (now: TextOf): void => setBase({ content: now.content, version: now.version, read: now });
  const isTheirs = stored !== base.read && stored.content !== base.content && stored.content !== draft;
  useUnsaved(isChanged, 'The text has changes that are not saved. Leave them?');
  // another field may have changed: only another text is a conflict
  useEffect(() => {
    if (stored === base.read || (isChanged && isTheirs)) return;
    take(stored);
    if (!isChanged) setDraft(stored.content);
  }, [stored]);
  const discard = (): void => {
    if (isTheirs) take(stored);
    setDraft(isTheirs ? stored.content : base.content);
    act.clear();
  };
  const save = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      const saved = await store.answer('template', () =>
        call(login, 'PUT', '/api/v1/templates/{id}', {
          path: { id: it.id },
          body: { content: draft },
          ifMatch: base.version,
        }),
      );
      setBase({ content: draft, version: saved.resource_version, read: stored });
    });
    if (isDone) messages.say(`${it.name} is saved; its instances stay as they are`);
  };
  const why = !isChanged
    ? 'Nothing has changed'
    : report?.valid === false
      ? 'Mend what is wrong with the text first'
      : undefined;
  return (
    <Form
      label="Text of the template"
      verb="Save"
      busy={act.busy}
      why={why}
      error={act.error}
      onSubmit={() => {
        void save();
        return true;
      }}
      foot={
        isChanged && (
          <>
            <Button pressed={isCompared} onClick={() => setCompared(!isCompared)}>
              Difference
            </Button>
            <Button onClick={discard}>Discard</Button>
          </>
        )
      }
    >
      {isChanged && isTheirs && (
        <Notice shape="warn">
          <p>
            Somebody else has changed the text meanwhile. “Discard” takes what is stored; saving is refused until then.
          </p>
        </Notice>
      )}
      <Field label="Text">
        {(control) => (
          <textarea
            {...control}
            class="input template-text"
            spellcheck={false}
            value={draft}
            onInput={(event) => {
              act.clear();
              setDraft(event.currentTarget.value);
            }}
          />
        )}
      </Field>
      {isCompared && isChanged && <Diff label="Difference of the text" before={base.content} after={draft} />}
      <ReportView report={report} error={error} />
    </Form>
  );
}
