import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Diff } from '../../parts/diff.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { ReportView, useReport } from './template-report.tsx';

interface TemplateTextProps {
  readonly it: ObjectOf<'template'>;
  /** As it is stored. */
  readonly content: string;
}

/** The text of a template, which its author changes. Instances stay as they are. */
export function TemplateText({ it, content }: TemplateTextProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const [base, setBase] = useState({ content, version: it.resource_version });
  const [draft, setDraft] = useState(content);
  const [isCompared, setCompared] = useState(false);
  const { report, error } = useReport(draft);
  const isChanged = draft !== base.content;
  useUnsaved(isChanged, 'The text has changes that are not saved. Leave them?');
  const save = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      const saved = await store.answer('template', () =>
        call(login, 'PUT', '/api/v1/templates/{id}', {
          path: { id: it.id },
          body: { content: draft },
          ifMatch: base.version,
        }),
      );
      setBase({ content: draft, version: saved.resource_version });
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
            <Button onClick={() => setDraft(base.content)}>Discard</Button>
          </>
        )
      }
    >
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
