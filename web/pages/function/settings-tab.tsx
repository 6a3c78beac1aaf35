import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyNotFunctionVerb } from '../../frame/function-verbs.ts';
import { useRank } from '../../frame/use-rank.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Form } from '../../parts/form.tsx';
import { Notice } from '../../parts/notice.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { Values } from '../../parts/schema-form.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import type { BodyOf } from '../body-of.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';
import { functionSettingsLayout } from './form-layout.ts';
import type { Fn, TabProps } from './tab-props.ts';
import { triggerControls } from './trigger-controls.tsx';
import { sentTrigger } from './trigger-fields.ts';

const formId = 'function-settings';

/** What calls a function and how much of it may run, as the served schema has it. */
export function SettingsTab({ it }: TabProps): VNode {
  const fields = useBodyFields('put', '/api/v1/functions/{id}');
  if (fields.error !== undefined) return <ErrorBox error={fields.error} onRetry={fields.again} />;
  if (fields.data === undefined) return <Skeleton label="Reading what can be set" />;
  return <Editor it={it} fields={fields.data} />;
}

/** The values of a function that its form has fields for. */
function valuesOf(it: Fn, fields: readonly FieldSpec[]): Values {
  const all: Values = { ...it };
  const hidden = new Set(functionSettingsLayout.hidden);
  return Object.fromEntries(
    fields.filter(({ name }) => !hidden.has(name) && name in all).map(({ name }) => [name, all[name]]),
  );
}

function Editor({ it, fields }: { readonly it: Fn; readonly fields: readonly FieldSpec[] }): VNode {
  const { login, store, messages } = useConsole();
  const rank = useRank(it.project_id);
  const why = whyNotFunctionVerb('update', it, rank);
  const [base, setBase] = useState(it);
  const start = valuesOf(base, fields);
  const form = useForm(fields, start, async (changed) => {
    const saved = await store.answer('function', () =>
      call(login, 'PUT', '/api/v1/functions/{id}', {
        path: { id: it.id },
        // the fields are those of the schema of this body
        body: sentTrigger(changed, form.values) as BodyOf<'updateFunction'>,
        ifMatch: base.resource_version,
      }),
    );
    messages.say(`${it.name} is saved`);
    take(saved);
  });
  const take = (now: Fn): void => {
    setBase(now);
    form.reset(valuesOf(now, fields));
  };
  const isChanged = Object.keys(form.changed).length > 0;
  if (it.resource_version !== base.resource_version && !isChanged && !form.busy) take(it);
  return (
    <div class="stack">
      {why !== undefined && (
        <Notice shape="info">
          <p>{why}</p>
        </Notice>
      )}
      {it.resource_version !== base.resource_version && isChanged && (
        <Notice shape="warn">
          <p>It was changed meanwhile. “Discard” takes what is stored; saving is refused until then.</p>
        </Notice>
      )}
      <Form label={`Settings of ${it.name}`} id={formId} error={form.error} onSubmit={form.submit}>
        <SchemaForm
          fields={fields}
          layout={functionSettingsLayout}
          values={form.values}
          onChange={form.setValues}
          faults={form.faults}
          custom={triggerControls(form.values)}
        />
        {isChanged && (
          <ShowAs
            origin={location.origin}
            request={{
              method: 'PUT',
              path: shownPath(login, `/api/v1/functions/${it.id}`),
              body: sentTrigger(form.changed, form.values),
            }}
          />
        )}
      </Form>
      <SaveBar
        form={formId}
        changes={fieldChanges(start, form.values)}
        busy={form.busy}
        why={why}
        effect={
          'runtime' in form.changed ? 'another runtime is used by the next version, the rest at once' : 'counts at once'
        }
        onDiscard={() => take(it)}
      />
    </div>
  );
}
