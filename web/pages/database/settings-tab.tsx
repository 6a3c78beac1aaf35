import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyNotDatabaseVerb } from '../../frame/database-verbs.ts';
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
import { DestinationChoice } from '../backups/destination-choice.tsx';
import type { BodyOf } from '../body-of.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';
import { parametersIn } from './engine-words.ts';
import { databaseSettingsLayout } from './form-layout.ts';
import { ParametersInput } from './parameters-input.tsx';
import type { Database, TabProps } from './tab-props.ts';

const formId = 'database-settings';

/** The settings of a database, as the served schema has them. */
export function SettingsTab({ it }: TabProps): VNode {
  const fields = useBodyFields('put', '/api/v1/databases/{id}');
  if (fields.error !== undefined) return <ErrorBox error={fields.error} onRetry={fields.again} />;
  if (fields.data === undefined) return <Skeleton label="Reading what can be set" />;
  return <Editor it={it} fields={fields.data} />;
}

/** The values of a database that its form has fields for. */
function valuesOf(it: Database, fields: readonly FieldSpec[]): Values {
  const all: Values = { ...it };
  return Object.fromEntries(
    fields.filter(({ name }) => name in all && name !== 'pitr_enabled').map(({ name }) => [name, all[name]]),
  );
}

/** Changes as they are sent: a parameter that was removed is sent as null, which takes it back. */
function bodyOf(changed: Values, { parameters }: Database): Values {
  const given = changed['parameters'];
  if (given === undefined) return changed;
  const kept: Values = typeof given === 'object' && given !== null ? { ...given } : {};
  const removed = Object.keys(parameters).filter((name) => !(name in kept));
  return { ...changed, parameters: { ...kept, ...Object.fromEntries(removed.map((name) => [name, null])) } };
}

function Editor({ it, fields }: { readonly it: Database; readonly fields: readonly FieldSpec[] }): VNode {
  const { login, store, messages } = useConsole();
  const rank = useRank(it.project_id);
  const why = whyNotDatabaseVerb('update', it, rank);
  const [base, setBase] = useState(it);
  const start = valuesOf(base, fields);
  const form = useForm(fields, start, async (changed) => {
    const saved = await store.answer('database', () =>
      call(login, 'PUT', '/api/v1/databases/{id}', {
        path: { id: it.id },
        // the fields are those of the schema of this body
        body: bodyOf(changed, base) as BodyOf<'updateDatabase'>,
        ifMatch: base.resource_version,
      }),
    );
    messages.say(`${it.name} is saved`);
    take(saved);
  });
  const take = (now: Database): void => {
    setBase(now);
    form.reset(valuesOf(now, fields));
  };
  const isChanged = Object.keys(form.changed).length > 0;
  if (it.resource_version !== base.resource_version && !isChanged && !form.busy) take(it);
  const known = parametersIn(fields.find(({ name }) => name === 'parameters')?.help ?? '').get(it.type) ?? [];
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
          layout={databaseSettingsLayout}
          // the engine decides which fields there are
          values={{ ...form.values, type: it.type }}
          onChange={(next) =>
            form.setValues(Object.fromEntries(Object.entries(next).filter(([name]) => name !== 'type')))
          }
          faults={form.faults}
          custom={{
            parameters: ({ control, value, onChange }) => (
              <ParametersInput control={control} known={known} value={value} onChange={onChange} />
            ),
            backup_destination_id: ({ control, value, onChange }) => (
              <DestinationChoice
                control={control}
                value={typeof value === 'string' ? value : undefined}
                onChange={(next) => onChange(next ?? null)}
              />
            ),
          }}
        />
        {isChanged && (
          <ShowAs
            origin={location.origin}
            request={{
              method: 'PUT',
              path: shownPath(login, `/api/v1/databases/${it.id}`),
              body: bodyOf(form.changed, base),
            }}
          />
        )}
      </Form>
      <SaveBar
        form={formId}
        changes={fieldChanges(start, form.values)}
        busy={form.busy}
        why={why}
        effect={effectOf(form.changed, it)}
        onDiscard={() => take(it)}
      />
    </div>
  );
}

const restarting: ReadonlySet<string> = new Set([
  'memory_limit',
  'cpu_limit',
  'exposed_port',
  'parameters',
  'backup_mode',
]);

function effectOf(changed: Values, { run }: Database): string {
  if (!Object.keys(changed).some((name) => restarting.has(name))) return 'counts at once';
  return run === 'stopped'
    ? 'used when it starts next'
    : 'the database starts anew on the same data, and all connections end';
}
