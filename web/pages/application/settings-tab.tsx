import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Operation } from '../../api.ts';
import { whyNotVerb } from '../../frame/application-verbs.ts';
import { useConsole } from '../../frame/context.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Application } from '../../model.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Form } from '../../parts/form.tsx';
import { Notice } from '../../parts/notice.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { faultOf } from '../../parts/schema-fields.ts';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { Values } from '../../parts/schema-form.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { changesBetween } from '../../parts/use-form.ts';
import { shownPath, useBodyFields } from '../served-fields.ts';
import type { TabProps } from './tab-props.ts';
import { GitCredentialChoice, RegistryChoice } from './credential-choice.tsx';
import { settingsLayout } from './settings-layout.ts';

type UpdateBody = NonNullable<
  Operation<'PUT', '/api/v1/applications/{id}'>['requestBody']
>['content']['application/json'];

/** The settings of an application, as the served schema has them. */
export function SettingsTab({ it }: TabProps): VNode {
  const fields = useBodyFields('put', '/api/v1/applications/{id}');
  if (fields.error !== undefined) return <ErrorBox error={fields.error} onRetry={fields.again} />;
  if (fields.data === undefined) return <Skeleton label="Reading what can be set" />;
  return <Editor it={it} fields={fields.data.map((field) => withoutSynonyms(field))} />;
}

/** `no` is another word for `never`, which manifests may use. */
function withoutSynonyms(field: FieldSpec): FieldSpec {
  if (field.name !== 'restart_policy') return field;
  return { ...field, help: '', options: field.options.filter((option) => option !== 'no') };
}

/** The fields of an application that a form can change, as they are stored. */
function valuesOf(it: Application, fields: readonly FieldSpec[]): Values {
  const all: Values = { ...it };
  const hidden = new Set(settingsLayout.hidden);
  return Object.fromEntries(
    fields.filter(({ name }) => !hidden.has(name) && name in all).map(({ name }) => [name, all[name]]),
  );
}

function Editor({ it, fields }: { it: Application; fields: readonly FieldSpec[] }): VNode {
  const { login, store, messages } = useConsole();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [base, setBase] = useState({ values: valuesOf(it, fields), version: it.resource_version });
  const [draft, setDraft] = useState<Values>({});
  const values = { ...base.values, ...draft };
  const changed = changesBetween(base.values, draft);
  const isChanged = Object.keys(changed).length > 0;
  const [theirs, setTheirs] = useState<readonly string[]>([]);
  const why = whyNotVerb('update', it, rank);

  // what another person stored meanwhile comes under the changes of this one
  useEffect(() => {
    if (it.resource_version === base.version) return;
    const next = valuesOf(it, fields);
    const others = Object.keys(next).filter(
      (name) => name in changed && JSON.stringify(next[name]) !== JSON.stringify(base.values[name]),
    );
    setTheirs(others);
    setBase({ values: next, version: it.resource_version });
    setDraft((now) => changesBetween(next, now));
  }, [it.resource_version]);

  const faults = Object.fromEntries(
    fields.flatMap((field) => {
      const own = field.name in changed ? faultOf(field, changed[field.name]) : undefined;
      const served = act.error?.details?.find(({ field: name }) => name.split('.')[0] === field.name)?.message;
      const fault = served ?? own;
      return fault === undefined ? [] : [[field.name, fault]];
    }),
  ) as Readonly<Record<string, string>>;
  const elsewhere = act.error?.details?.every(({ field }) => faults[field.split('.')[0] ?? ''] === undefined) ?? true;
  const discard = (): void => {
    setDraft({});
    setTheirs([]);
    act.clear();
  };
  const save = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      const answer = await store.answer('application', () =>
        call(login, 'PUT', '/api/v1/applications/{id}', {
          path: { id: it.id },
          body: changed as UpdateBody, // its fields are those of the served schema; the server checks them
          ifMatch: base.version,
        }),
      );
      setBase({ values: valuesOf(answer, fields), version: answer.resource_version });
    });
    if (!isDone) return;
    setDraft({});
    setTheirs([]);
    messages.say('Saved');
  };
  return (
    <div class="stack">
      {theirs.length > 0 && (
        <Notice shape="warn">
          <p>
            Somebody else has changed {theirs.join(', ')} meanwhile. Saving puts yours in place; “Discard” takes what is
            stored.
          </p>
        </Notice>
      )}
      {why !== undefined && (
        <Notice shape="info">
          <p>{why}</p>
        </Notice>
      )}
      <Form
        id="settings"
        label="Settings"
        error={elsewhere ? act.error : undefined}
        onSubmit={() => {
          if (!isChanged || why !== undefined) return true;
          if (Object.keys(changed).some((name) => faults[name] !== undefined) && act.error === undefined) return false;
          void save();
          return true;
        }}
      >
        <SchemaForm
          fields={fields}
          layout={settingsLayout}
          values={values}
          onChange={(next) => {
            act.clear();
            // the form gives all values: those that were not entered stay as they are stored, whatever comes there
            setDraft(changesBetween(base.values, next));
          }}
          faults={faults}
          custom={{
            git_credential_id: (given) => <GitCredentialChoice {...given} />,
            registry_id: (given) => <RegistryChoice {...given} />,
          }}
        />
        {isChanged && (
          <ShowAs
            origin={location.origin}
            request={{ method: 'PUT', path: shownPath(login, `/api/v1/applications/${it.id}`), body: changed }}
          />
        )}
      </Form>
      <SaveBar
        form="settings"
        changes={fieldChanges(
          Object.fromEntries(Object.keys(changed).map((name) => [name, base.values[name]])),
          changed,
        )}
        effect={effectOf(changed, it)}
        busy={act.busy}
        why={why}
        onDiscard={discard}
      />
    </div>
  );
}

/** Fields that count at once, without a deployment. */
const atOnce: ReadonlySet<string> = new Set([
  'name',
  'host_name',
  'replicas',
  'labels',
  'autodeploy',
  'autodeploy_interval',
  'watch_paths',
  'max_surge',
  'min_healthy_seconds',
  'healthy_deadline',
  'drain_seconds',
  'stop_grace_seconds',
  'git_credential_id',
  'registry_id',
]);

/** Fields of the source: they wait for a deployment that somebody asks for. */
const ofSource: ReadonlySet<string> = new Set([
  'source_type',
  'repository_url',
  'branch',
  'dockerfile_path',
  'build_context',
  'submodules',
  'image_url',
  'compose_path',
]);

function effectOf(changed: Values, { run }: Application): string {
  const names = Object.keys(changed).filter((name) => !atOnce.has(name));
  if (names.length === 0) return 'counts at once';
  if (run === 'stopped') return 'used when it starts next';
  return names.every((name) => ofSource.has(name))
    ? 'used from the next deployment on'
    : 'saving rolls out the running application with it';
}
