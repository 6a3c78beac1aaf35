import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { syncVerbs } from '#rules/sync.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
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
import { syncSettingsLayout } from './form-layout.ts';
import { useSyncControls } from './sync-controls.tsx';
import { withOneFollowed } from './sync-words.ts';
import type { Sync } from './sync-words.ts';
import type { TabProps } from './tab-props.ts';

const formId = 'sync-settings';
/** Fields that do not say what is applied: their change leaves the sync with the rights that it has. */
const harmless = new Set(['name', 'interval_seconds', 'labels']);

/** What a sync reads and what it does with it, as the served schema has it. */
export function SettingsTab({ it, below }: TabProps): VNode {
  const fields = useBodyFields('put', '/api/v1/syncs/{id}');
  if (fields.error !== undefined) return <ErrorBox error={fields.error} onRetry={fields.again} />;
  if (fields.data === undefined) return <Skeleton label="Reading what can be set" />;
  return <Editor it={it} below={below} fields={fields.data} />;
}

/** The values of a sync that its form has fields for. */
function valuesOf(it: Sync, fields: readonly FieldSpec[]): Values {
  const all: Values = { ...it };
  const hidden = new Set(syncSettingsLayout.hidden);
  return Object.fromEntries(
    fields.filter(({ name }) => !hidden.has(name) && name in all).map(({ name }) => [name, all[name]]),
  );
}

interface EditorProps extends Pick<TabProps, 'it' | 'below'> {
  readonly fields: readonly FieldSpec[];
}

function Editor({ it, below, fields }: EditorProps): VNode {
  const { login, store, messages } = useConsole();
  const why = whyNot(syncVerbs, 'update', it) ?? below;
  const { controls } = useSyncControls(it.project_id, {
    environment: 'The default one of the project',
    server: 'Choose one',
  });
  const [base, setBase] = useState(it);
  const start = valuesOf(base, fields);
  const form = useForm(fields, start, async (changed) => {
    const saved = await store.answer('sync', () =>
      call(login, 'PUT', '/api/v1/syncs/{id}', {
        path: { id: it.id },
        // the fields are those of the schema of this body
        body: changed as BodyOf<'updateSync'>,
      }),
    );
    messages.say(`${it.name} is saved`);
    take(saved);
  });
  const take = (now: Sync): void => {
    setBase(now);
    form.reset(valuesOf(now, fields));
  };
  const isChanged = Object.keys(form.changed).length > 0;
  if (it.generation !== base.generation && !isChanged && !form.busy) take(it);
  const isDecisive = Object.keys(form.changed).some((name) => !harmless.has(name));
  return (
    <div class="stack">
      {it.generation !== base.generation && isChanged && (
        <Notice shape="warn">
          <p>
            It was changed meanwhile. “Discard” takes what is stored; saving overwrites the fields that you changed.
          </p>
        </Notice>
      )}
      <Form label={`Settings of ${it.name}`} id={formId} error={form.error} onSubmit={form.submit}>
        <SchemaForm
          fields={fields}
          layout={syncSettingsLayout}
          values={form.values}
          onChange={(next) => form.setValues(withOneFollowed(form.values, next))}
          faults={form.faults}
          custom={controls}
        />
        {isChanged && (
          <ShowAs
            origin={location.origin}
            request={{ method: 'PUT', path: shownPath(login, `/api/v1/syncs/${it.id}`), body: form.changed }}
          />
        )}
      </Form>
      <SaveBar
        form={formId}
        changes={fieldChanges(start, form.values)}
        busy={form.busy}
        why={why}
        effect={
          isDecisive
            ? 'it looks at once, and has your rights in the project from then on'
            : 'it keeps the rights it has'
        }
        onDiscard={() => take(it)}
      />
    </div>
  );
}
